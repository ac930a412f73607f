"""Decision Transformer from a Minari data set of Hopper-v5. Values of DI-engine, not trained here."""

from easydict import EasyDict

hopper_dt_config = EasyDict(
    exp_name="hopper_dt_seed0",
    env=dict(
        env_id="Hopper-v5",
        stop_value=3600,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        rtg_target=3600.0,
        learn=dict(
            train_epoch=10,
            learning_rate=dict(type="linear", start=1e-8, end=1e-4, over=10_000, by="iteration"),
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
    ),
)
main_config = hopper_dt_config

hopper_dt_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dt"),
)
create_config = hopper_dt_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
