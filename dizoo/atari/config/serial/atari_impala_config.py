"""IMPALA on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_impala_config = EasyDict(
    exp_name="atari_impala_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 256, 512],
            actor_head_hidden_size=512,
            actor_head_layer_num=3,
            critic_head_hidden_size=512,
            critic_head_layer_num=3,
        ),
        learn=dict(
            update_per_collect=10,  # learner iterations
            batch_size=128,  # sequences of 32 env steps
            learning_rate=0.0003,
            grad_clip_type="clip_norm",
            grad_clip_value=5.0,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=16),  # sequences of 32 env steps
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
        other=dict(
            replay_buffer=dict(replay_buffer_size=10000),  # sequences of 32 env steps
        ),
    ),
)
main_config = atari_impala_config

atari_impala_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="impala"),
)
create_config = atari_impala_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
