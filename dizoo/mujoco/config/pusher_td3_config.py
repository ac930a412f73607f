"""TD3 on Pusher-v5.

DI-engine has no such file. The values are those of its files for other robots.
This config has not been trained to the end.
"""

from easydict import EasyDict

pusher_td3_config = EasyDict(
    exp_name="pusher_td3_seed0",
    env=dict(
        env_id="Pusher-v5",
        collector_env_num=1,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(batch_size=256),
        collect=dict(n_sample=1),  # env steps
        other=dict(
            replay_buffer=dict(replay_buffer_size=1000000),  # env steps
        ),
    ),
)
main_config = pusher_td3_config

pusher_td3_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = pusher_td3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e6))
