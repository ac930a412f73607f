"""R2D2 on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, except for a smaller buffer, not trained here.
"""

from easydict import EasyDict

atari_r2d2_config = EasyDict(
    exp_name="atari_r2d2_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        priority=True,
        priority_IS_weight=True,
        model=dict(encoder_hidden_size_list=[128, 128, 512]),
        unroll_len=80,  # env steps
        learn=dict(
            update_per_collect=8,  # learner iterations
            learning_rate=0.0005,
            target_theta=0.001,
        ),
        collect=dict(n_sample=32),  # sequences of 80 env steps
        other=dict(
            eps=dict(decay=100000),  # env steps
            replay_buffer=dict(replay_buffer_size=5000),  # sequences of 80 env steps
        ),
    ),
)
main_config = atari_r2d2_config

atari_r2d2_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="r2d2"),
)
create_config = atari_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
