"""REDQ on InvertedPendulum-v5, solved at a mean return of 1000, the largest.

Result: 1000 with two of two seeds, after 2,000 and 2,250 env steps; 1000 over 100 new episodes with both.
"""

from easydict import EasyDict

inverted_pendulum_redq_config = EasyDict(
    exp_name="inverted_pendulum_redq_seed0",
    env=dict(
        env_id="InvertedPendulum-v5",
        collector_env_num=1,
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=1000,
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
main_config = inverted_pendulum_redq_config

inverted_pendulum_redq_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="redq"),
)
create_config = inverted_pendulum_redq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
