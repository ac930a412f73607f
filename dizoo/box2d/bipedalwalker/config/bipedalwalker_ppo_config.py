"""PPO on BipedalWalker-v3, solved at a mean return of 300. No result is recorded."""

from easydict import EasyDict

bipedalwalker_ppo_config = EasyDict(
    exp_name="bipedalwalker_ppo_seed0",
    env=dict(
        env_id="BipedalWalker-v3",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=300,
        rew_clip=True,
    ),
    policy=dict(
        learn=dict(
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
    ),
)
main_config = bipedalwalker_ppo_config

bipedalwalker_ppo_create_config = EasyDict(
    env=dict(
        type="bipedalwalker",
        import_names=["dizoo.box2d.bipedalwalker.envs.bipedalwalker_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="ppo"),
)
create_config = bipedalwalker_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
