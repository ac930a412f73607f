"""r2d2 on CartPole-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c cartpole_r2d2_config.py`.
"""

main_config = dict(
    exp_name="cartpole_r2d2_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=475.0,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.997,  # gamma, per env step
        nstep=5,  # n: env steps whose rewards are summed before the bootstrap
        unroll_len=40,  # env steps of a sequence that are learned from; n_sample and sizes count sequences
        random_collect_size=0,  # env steps per rank with random actions before learning starts
        learn=dict(
            update_per_collect=1,  # learner iterations after each collect
            batch_size=64,  # samples per rank and iteration
            learning_rate=0.0001,  # step size
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1000,  # learner iterations between two evaluations
            ),
        ),
        other=dict(
            eps=dict(
                type="exp",  # decrease of epsilon: 'exp' or 'linear'
                start=0.95,  # epsilon at global env step 0
                end=0.05,  # final epsilon
                decay=10000,  # global env steps: time constant, or length of the linear decrease
            ),
            replay_buffer=dict(
                replay_buffer_size=1000,  # capacity: sequences of unroll_len env steps per rank
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
        type="r2d2",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
