"""Rainbow on Atari Pong. Values of DI-engine, not trained here."""

from easydict import EasyDict

pong_rainbow_config = EasyDict(
    exp_name="pong_rainbow_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        priority=False,
        model=dict(encoder_hidden_size_list=[128, 128, 512]),
        learn=dict(
            update_per_collect=10,
            batch_size=32,
            learning_rate=0.0001,
            target_update_freq=500,
        ),
        collect=dict(n_sample=96),
        eval=dict(evaluator=dict(eval_freq=4000)),
    ),
)
main_config = pong_rainbow_config

pong_rainbow_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="rainbow"),
)
create_config = pong_rainbow_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
