"""BDQ on Hopper-v5 with 4 torques to choose from at each joint. Values of DI-engine, not trained here."""

from easydict import EasyDict

hopper_bdq_config = EasyDict(
    exp_name="hopper_bdq_seed0",
    env=dict(
        env_id="Hopper-v5",
        action_bins_per_branch=4,
        stop_value=1000000,
    ),
    policy=dict(
        nstep=3,
        model=dict(
            encoder_hidden_size_list=[256, 256, 128],
        ),
        learn=dict(
            update_per_collect=20,
            batch_size=512,
            learning_rate=0.0003,
            target_update_freq=500,
        ),
        collect=dict(n_sample=256),
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=100000),
            replay_buffer=dict(replay_buffer_size=1000000),
        ),
    ),
)
main_config = hopper_bdq_config

hopper_bdq_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="bdq"),
)
create_config = hopper_bdq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=10000000)
