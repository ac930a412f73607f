"""d4pg on Pendulum-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c pendulum_d4pg_config.py`.
"""

main_config = dict(
    exp_name="pendulum_d4pg_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=None,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        nstep=3,  # env steps whose rewards are summed before the bootstrap
        random_collect_size=25000,  # env steps per rank with random actions before learning starts
        model=dict(
            v_min=-10.0,  # smallest atom: a lower bound of the discounted return
            v_max=10.0,  # largest atom: an upper bound of the discounted return
        ),
        learn=dict(
            update_per_collect=1,  # learner iterations after each collect
            batch_size=256,  # samples per rank and iteration
            learning_rate_actor=0.001,  # step size of the actor's optimizer
            learning_rate_critic=0.001,  # step size of the critics' optimizer
            target_theta=0.005,  # share of a network mixed into its target at each update
        ),
        collect=dict(
            noise_sigma=0.1,  # standard deviation of the Gaussian noise added to the actor's action
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
        type="d4pg",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
