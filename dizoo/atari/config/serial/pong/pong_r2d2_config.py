"""R2D2 on Atari Pong. Values of DI-engine, except for a smaller buffer, not trained here."""

from easydict import EasyDict

pong_r2d2_config = EasyDict(
    exp_name="pong_r2d2_seed0",
    env=dict(
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=20,
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        priority=True,
        priority_IS_weight=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 512],
        ),
        burnin_step=2,
        learn=dict(
            update_per_collect=8,
            batch_size=64,
            learning_rate=0.0005,
            target_theta=0.001,
        ),
        collect=dict(n_sample=32),
        other=dict(
            eps=dict(decay=100000),
            replay_buffer=dict(replay_buffer_size=5000),
        ),
    ),
)
main_config = pong_r2d2_config

pong_r2d2_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="r2d2"),
)
create_config = pong_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
