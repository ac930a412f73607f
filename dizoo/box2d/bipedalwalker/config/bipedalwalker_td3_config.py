"""TD3 on BipedalWalker-v3, solved at a mean return of 300.

Result: 290 over 100 new episodes after 141,000 env steps, one seed.
"""

from easydict import EasyDict

bipedalwalker_td3_config = EasyDict(
    exp_name="bipedalwalker_td3_seed0",
    env=dict(
        env_id="BipedalWalker-v3",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=300,
        rew_clip=True,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=10000,
        model=dict(
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=32,
            batch_size=128,
            learning_rate_actor=0.0005,
            learning_rate_critic=0.0005,
        ),
        collect=dict(n_sample=64),
        other=dict(
            replay_buffer=dict(replay_buffer_size=300000),
        ),
    ),
)
main_config = bipedalwalker_td3_config

bipedalwalker_td3_create_config = EasyDict(
    env=dict(
        type="bipedalwalker",
        import_names=["dizoo.box2d.bipedalwalker.envs.bipedalwalker_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)
create_config = bipedalwalker_td3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
