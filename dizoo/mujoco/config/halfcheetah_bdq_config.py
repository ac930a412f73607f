"""BDQ on HalfCheetah-v5 with 2 torques to choose from at each joint. Values of DI-engine, not trained here."""

from easydict import EasyDict

halfcheetah_bdq_config = EasyDict(
    exp_name="halfcheetah_bdq_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        action_bins_per_branch=2,
        stop_value=12000,
    ),
    policy=dict(
        model=dict(
            encoder_hidden_size_list=[256, 256, 128],
        ),
        learn=dict(
            update_per_collect=20,  # learner iterations
            batch_size=512,
            learning_rate=0.0003,
            ignore_done=True,
            target_update_freq=500,  # learner iterations
        ),
        collect=dict(n_sample=256),  # env steps
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=100000),  # env steps
            replay_buffer=dict(replay_buffer_size=1000000),  # env steps
        ),
    ),
)
main_config = halfcheetah_bdq_config

halfcheetah_bdq_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bdq"),
)
create_config = halfcheetah_bdq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
