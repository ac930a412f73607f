"""PPO with continuous actions on Humanoid-v5.

DI-engine has no such file. The values are those of Stable-Baselines3's zoo for an older version.
This config has not been trained to the end.
"""

from easydict import EasyDict

humanoid_onppo_config = EasyDict(
    exp_name="humanoid_onppo_seed0",
    env=dict(
        env_id="Humanoid-v5",
        collector_env_num=1,
        norm_obs=True,
        norm_reward=True,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.95,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[256, 256],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=5,
            batch_size=256,
            learning_rate=3.56987e-05,
            value_weight=0.431892,
            entropy_weight=0.00238306,
            clip_ratio=0.3,
            grad_clip_value=2.0,
        ),
        collect=dict(
            n_sample=512,  # env steps
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
    ),
)
main_config = humanoid_onppo_config

humanoid_onppo_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = humanoid_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
