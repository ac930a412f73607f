"""ppo_offpolicy on CartPole-v1. docs/config.md lists all keys.

Train it with `ding_lite train -c cartpole_ppo_offpolicy_config.py`.
"""

main_config = dict(
    exp_name="cartpole_ppo_offpolicy_seed0",
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
            update_per_collect=5,  # learner iterations after each collect
            batch_size=64,  # samples per rank and iteration
            learning_rate=0.001,  # step size
            entropy_weight=0.01,  # weight of the entropy bonus
            clip_ratio=0.2,  # bound of |pi_new(a) / pi_old(a) - 1|
        ),
        collect=dict(
            n_sample=128,  # env steps per rank and collect, rounded up to a multiple of collector_env_num
            gae_lambda=0.95,  # lambda of generalised advantage estimation
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=1000,  # learner iterations between two evaluations
            ),
        ),
        other=dict(
            replay_buffer=dict(
                replay_buffer_size=10000,  # capacity of the buffer, in env steps per rank
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
        type="ppo_offpolicy",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
