"""ppo on PongNoFrameskip-v4. docs/config.md lists all keys.

Train it with `ding_lite train -c pong_ppo_config.py`.
"""

main_config = dict(
    exp_name="pong_ppo_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=8,  # environments that collect, per process
        evaluator_env_num=8,  # environments that evaluate, on rank 0 only
        n_evaluator_episode=8,  # episodes of one evaluation, rounded up to a multiple of evaluator_env_num
        stop_value=None,  # the run ends at this mean evaluation return; None: at a limit of steps
    ),
    policy=dict(
        discount_factor=0.99,  # gamma, per env step
        learn=dict(
            epoch_per_collect=10,  # passes over the samples of a collect
            batch_size=64,  # samples per rank and iteration
            learning_rate=0.0003,  # step size
            entropy_weight=0.0,  # weight of the entropy bonus
            clip_ratio=0.2,  # bound of |pi_new(a) / pi_old(a) - 1|
        ),
        collect=dict(
            n_sample=2048,  # env steps per rank and collect, rounded up to a multiple of collector_env_num
            gae_lambda=0.95,  # lambda of generalised advantage estimation
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
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(
        type="native",
    ),
    policy=dict(
        type="ppo",
    ),
)

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
