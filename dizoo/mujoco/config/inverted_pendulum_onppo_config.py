"""PPO with continuous actions on InvertedPendulum-v5, up to a mean return of 1000, the largest.

DI-engine has no such file. The values are those of Stable-Baselines3's zoo for an older version.
This config has not been trained to the end.
"""

from easydict import EasyDict

inverted_pendulum_onppo_config = EasyDict(
    exp_name="inverted_pendulum_onppo_seed0",
    env=dict(
        env_id="InvertedPendulum-v5",
        collector_env_num=1,
        norm_obs=True,
        norm_reward=True,
        stop_value=1000,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.999,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            epoch_per_collect=5,
            batch_size=32,
            learning_rate=0.000222425,
            value_weight=0.19816,
            entropy_weight=1.37976e-07,
            clip_ratio=0.4,
            grad_clip_value=0.3,
        ),
        collect=dict(
            n_sample=32,  # env steps
            gae_lambda=0.9,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
    ),
)
main_config = inverted_pendulum_onppo_config

inverted_pendulum_onppo_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = inverted_pendulum_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e6))
