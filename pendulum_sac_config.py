"""sac on Pendulum-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c pendulum_sac_config.py`.
"""

main_config = dict(
    exp_name="pendulum_sac_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=None,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        nstep=1,  # env steps whose rewards are summed before the bootstrap
        random_collect_size=10000,  # env steps per rank with random actions before learning starts
        learn=dict(
            update_per_collect=1,  # learner iterations after each collect
            batch_size=256,  # samples per rank and iteration
            learning_rate_q=0.0003,  # step size of the critics' optimizer
            learning_rate_policy=0.0003,  # step size of the actor's optimizer
            learning_rate_alpha=0.0003,  # step size of alpha's optimizer
            target_theta=0.005,  # share of a network mixed into its target at each update
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1000,  # learner iterations between two evaluations
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=1000000,  # capacity of the buffer, in env steps per rank
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
        type="sac",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
