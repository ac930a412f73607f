"""PPO on Atari Pong, solved at a mean return of 20. No result is recorded."""

from easydict import EasyDict

pong_ppo_config = EasyDict(
    exp_name="pong_ppo_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        model=dict(
            share_encoder=True,
            encoder_hidden_size_list=[32, 64, 64, 512],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            entropy_weight=0.01,
            clip_ratio=0.1,
        ),
        collect=dict(
            n_sample=1024,
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
