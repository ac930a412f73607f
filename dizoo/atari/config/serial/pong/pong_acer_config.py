"""ACER on Atari Pong, solved at a mean return of 20; needs a GPU. No result is recorded."""

from easydict import EasyDict

pong_acer_config = EasyDict(
    exp_name="pong_acer_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
        evaluator_env_num=4,
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 512],
            critic_head_hidden_size=512,
            critic_head_layer_num=2,
            actor_head_hidden_size=512,
            actor_head_layer_num=2,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=64,
            learning_rate_actor=0.0001,
            learning_rate_critic=0.0003,
            entropy_weight=0.01,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=10000),
        ),
    ),
)
main_config = pong_acer_config

pong_acer_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="acer"),
)
create_config = pong_acer_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
