"""Off-policy PPO on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_ppo_offpolicy_config = EasyDict(
    exp_name="atari_ppo_offpolicy_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[32, 64, 64, 128],
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
            critic_head_layer_num=2,
        ),
        learn=dict(
            update_per_collect=24,  # learner iterations
            batch_size=128,
            learning_rate=0.0001,
            value_weight=1.0,
            entropy_weight=0.03,
            clip_ratio=0.1,
        ),
        collect=dict(n_sample=1024),  # env steps
        other=dict(
            replay_buffer=dict(replay_buffer_size=100000),  # env steps
        ),
    ),
)
main_config = atari_ppo_offpolicy_config

atari_ppo_offpolicy_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="ppo_offpolicy"),
)
create_config = atari_ppo_offpolicy_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
