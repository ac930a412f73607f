"""pg on CartPole-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c cartpole_pg_config.py`.
"""

main_config = dict(
    exp_name="cartpole_pg_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=475.0,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        learn=dict(
            batch_size=64,  # samples per rank and iteration
            learning_rate=0.001,  # step size
            entropy_weight=0.01,  # weight of the entropy bonus
        ),
        collect=dict(
            n_episode=8,  # whole episodes per rank and collect, rounded up to a multiple of collector_env_num
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1000,  # learner iterations between two evaluations
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
        type="pg",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
