"""BCQ from a Minari data set of Hopper-v5. Values of DI-engine, not trained here."""

from easydict import EasyDict

hopper_bcq_config = EasyDict(
    exp_name="hopper_bcq_seed0",
    env=dict(
        env_id="Hopper-v5",
        stop_value=3500,
    ),
    policy=dict(
        num_threads=1,
        learn=dict(
            learning_rate_q=3e-3,
            learning_rate_policy=3e-3,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_bcq_config

hopper_bcq_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bcq"),
)
create_config = hopper_bcq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
