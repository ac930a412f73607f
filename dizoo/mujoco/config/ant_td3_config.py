"""TD3 on Ant-v5, up to a mean return of 6000. Values of DI-engine, not trained here."""

from easydict import EasyDict

ant_td3_config = EasyDict(
    exp_name="ant_td3_seed0",
    env=dict(
        env_id="Ant-v5",
        collector_env_num=1,
        stop_value=6000,
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
main_config = ant_td3_config

ant_td3_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = ant_td3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
