"""STEVE with SAC on Pendulum-v1, solved at a mean return of -250.

Result: -215, -236 and -130 with three of three seeds, after 2,800, 4,800 and 2,800 env steps.
"""

from easydict import EasyDict

pendulum_stevesac_mbpo_config = EasyDict(
    exp_name="pendulum_stevesac_mbpo_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=1000,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            ignore_done=True,
        ),
        collect=dict(
            n_sample=10,
        ),
        eval=dict(evaluator=dict(eval_freq=200)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
    world_model=dict(
        train_freq=250,
        rollout_length_scheduler=dict(type="constant", rollout_length=3),
        model=dict(
            ensemble_size=5,
            elite_size=3,
            hidden_size=100,
            use_decay=True,
            holdout_ratio=0.1,
            batch_size=64,
        ),
    ),
)
main_config = pendulum_stevesac_mbpo_config

pendulum_stevesac_mbpo_create_config = EasyDict(
    env=dict(
        type="mbpendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="stevesac"),
    world_model=dict(type="mbpo"),
)
create_config = pendulum_stevesac_mbpo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_dream

    serial_pipeline_dream((main_config, create_config), seed=0)
