"""ACER on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_acer_config = EasyDict(
    exp_name="atari_acer_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
    ),
    policy=dict(
        cuda=True,
        discount_factor=0.99,
        unroll_len=64,  # env steps
        model=dict(
            encoder_hidden_size_list=[128, 128, 512],
            actor_head_hidden_size=512,
            actor_head_layer_num=2,
            critic_head_hidden_size=512,
            critic_head_layer_num=2,
        ),
        learn=dict(
            update_per_collect=10,  # learner iterations
            batch_size=64,  # sequences of 64 env steps
            learning_rate_actor=0.0001,
            learning_rate_critic=0.0003,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=64),  # sequences of 64 env steps
        other=dict(
            replay_buffer=dict(replay_buffer_size=3000),  # sequences of 64 env steps
        ),
    ),
)
main_config = atari_acer_config

atari_acer_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="acer"),
)
create_config = atari_acer_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
