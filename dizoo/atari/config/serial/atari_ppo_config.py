"""PPO on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_ppo_config = EasyDict(
    exp_name="atari_ppo_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[32, 64, 64, 512],
            actor_head_hidden_size=512,
            actor_head_layer_num=0,
            critic_head_hidden_size=512,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.00025,
            entropy_weight=0.01,
            clip_ratio=0.1,
        ),
        collect=dict(n_sample=1024),  # env steps
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
    ),
)
main_config = atari_ppo_config

atari_ppo_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="ppo"),
)
create_config = atari_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
