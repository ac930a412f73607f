"""DQN on Taxi-v4, whose best mean return is about 8."""

from easydict import EasyDict

taxi_dqn_config = EasyDict(
    exp_name="taxi_dqn_seed0",
    env=dict(
        env_id="Taxi-v4",
        stop_value=20,
        max_episode_steps=60,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[128, 128]),
        random_collect_size=5000,
        learn=dict(
            update_per_collect=10,
            batch_size=64,
            learning_rate=0.0001,
            learner=dict(hook=dict(log_show_after_iter=1000)),
        ),
        collect=dict(n_sample=32),
        other=dict(
            eps=dict(
                type="linear",
                start=1.0,
                end=0.05,
                decay=3000000,
            ),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = taxi_dqn_config

taxi_dqn_create_config = EasyDict(
    env=dict(
        type="taxi",
        import_names=["dizoo.taxi.envs.taxi_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = taxi_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=3000000)
