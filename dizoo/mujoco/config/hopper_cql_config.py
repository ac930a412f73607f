"""Conservative Q-learning from a Minari data set of Hopper-v5. Not trained here."""

from easydict import EasyDict

hopper_cql_config = EasyDict(
    exp_name="hopper_cql_seed0",
    env=dict(
        env_id="Hopper-v5",
        stop_value=6000,
    ),
    policy=dict(
        num_threads=1,
        learn=dict(
            init_w=None,
            train_epoch=250,
            learning_rate_policy=1e-4,
            auto_alpha=False,
            min_q_weight=5.0,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_cql_config

hopper_cql_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="cql"),
)
create_config = hopper_cql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
