"""EDAC from a Minari data set of Hopper-v5. Values of DI-engine, not trained here."""

from easydict import EasyDict

hopper_edac_config = EasyDict(
    exp_name="hopper_edac_seed0",
    env=dict(
        env_id="Hopper-v5",
        stop_value=3700,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            ensemble_num=50,
            actor_head_layer_num=3,
            critic_head_layer_num=4,
        ),
        learn=dict(
            train_epoch=250,
            eta=1.0,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_edac_config

hopper_edac_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="edac"),
)
create_config = hopper_edac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
