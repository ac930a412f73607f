"""rainbow on CartPole-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c cartpole_rainbow_config.py`.
"""

main_config = dict(
    exp_name="cartpole_rainbow_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=475.0,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        nstep=3,  # n: env steps whose rewards are summed before the bootstrap
        random_collect_size=2000,  # env steps per rank with random actions before learning starts
        model=dict(
            v_min=-10.0,  # the smallest return that the distribution can express
            v_max=10.0,  # the largest return that the distribution can express
        ),
        learn=dict(
            update_per_collect=1,  # learner iterations after each collect
            batch_size=32,  # samples per rank and iteration
            learning_rate=0.001,  # step size
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
                end=0.1,  # final epsilon
                decay=10000,  # global env steps: time constant, or length of the linear decrease
            ),
            replay_buffer=dict(
                replay_buffer_size=100000,  # capacity: env steps per rank
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
        type="rainbow",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
