"""FQF on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, except for a smaller buffer, not trained here.
"""

from easydict import EasyDict

atari_fqf_config = EasyDict(
    exp_name="atari_fqf_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        model=dict(encoder_hidden_size_list=[128, 128, 512]),
        discount_factor=0.99,
        learn=dict(
            update_per_collect=10,  # learner iterations
            batch_size=32,
            target_update_freq=500,  # learner iterations
        ),
        collect=dict(n_sample=96),  # env steps
        eval=dict(evaluator=dict(eval_freq=4000)),  # learner iterations
        other=dict(
            eps=dict(start=1.0, end=0.01, decay=1000000),  # env steps
            replay_buffer=dict(replay_buffer_size=400000),  # env steps
        ),
    ),
)
main_config = atari_fqf_config

atari_fqf_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="fqf"),
)
create_config = atari_fqf_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
