"""impala on CartPole-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c cartpole_impala_config.py`.
"""

main_config = dict(
    exp_name="cartpole_impala_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=475.0,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        unroll_len=32,  # env steps of a sequence, which counts as one sample: n_sample, batch_size, buffer size
        learn=dict(
            update_per_collect=4,  # learner iterations after each collect
            batch_size=16,  # sequences per rank and iteration
            learning_rate=0.0005,  # step size
            entropy_weight=0.0001,  # weight of the entropy bonus
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1000,  # learner iterations between two evaluations
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=1000,  # capacity of the buffer, in sequences per rank
            ),
        ),
    ),
)
create_config = dict(
    env=dict(
        type="gymnasium",
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="impala",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
