"""PPO on Atari Pong, solved at a mean return of 20."""

from easydict import EasyDict

pong_ppo_config = EasyDict(
    exp_name="pong_ppo_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        frame_stack=4,
        clip_rewards=True,
        episodic_life=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        discount_factor=0.99,
        recompute_adv=True,
        model=dict(
            obs_shape=[4, 84, 84],
            action_shape=6,
            action_space="discrete",
            share_encoder=True,
            encoder_hidden_size_list=[32, 64, 64, 512],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.0003,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.1,
            adv_norm=True,
            value_norm=True,
            grad_clip_type="clip_norm",
            grad_clip_value=0.5,
        ),
        collect=dict(
            n_sample=1024,
            gae_lambda=0.95,
        ),
        eval=dict(evaluator=dict(eval_freq=1600)),
    ),
)
main_config = pong_ppo_config

pong_ppo_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="ppo"),
)
create_config = pong_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
