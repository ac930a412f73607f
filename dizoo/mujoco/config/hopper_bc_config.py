"""Behaviour cloning from a Minari data set of Hopper-v5. Not trained here."""

from easydict import EasyDict

hopper_bc_config = EasyDict(
    exp_name="hopper_bc_seed0",
    env=dict(
        env_id="Hopper-v5",
        stop_value=6000,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[256, 256],
        ),
        learn=dict(
            train_epoch=250,
            batch_size=256,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_bc_config

hopper_bc_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bc"),
)
create_config = hopper_bc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
