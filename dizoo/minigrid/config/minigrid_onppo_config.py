"""PPO on MiniGrid-Empty-8x8-v0, solved at a mean return of 0.95 (the shortest way is worth 0.96)."""

from easydict import EasyDict

minigrid_onppo_config = EasyDict(
    exp_name="minigrid_onppo_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        onehot_obs=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        discount_factor=0.99,
        recompute_adv=True,
        model=dict(
            obs_shape=1033,
            action_shape=7,
            action_space="discrete",
            encoder_hidden_size_list=[128, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=256,
            learning_rate=0.0003,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
            adv_norm=True,
            value_norm=True,
        ),
        collect=dict(
            n_sample=2048,
            gae_lambda=0.95,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
    ),
)
main_config = minigrid_onppo_config

minigrid_onppo_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = minigrid_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
