"""Discrete SAC on any Atari game, on Pong unless `env.env_id` names another one.

The values are those of `pong/pong_sac_config.py`, with a larger buffer and a longer exploration.
Not trained here.
"""

from easydict import EasyDict

atari_discrete_sac_config = EasyDict(
    exp_name="atari_discrete_sac_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
    ),
    policy=dict(
        cuda=True,
        random_collect_size=0,
        model=dict(
            encoder_hidden_size_list=[64, 64, 128, 256],
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=50,  # learner iterations
            batch_size=320,
            learning_rate_q=0.0005,
            learning_rate_policy=0.0005,
        ),
        collect=dict(n_sample=3200),  # env steps
        eval=dict(evaluator=dict(eval_freq=500)),  # learner iterations
        other=dict(
            eps=dict(type="linear", start=1.0, end=0.05, decay=1000000),  # env steps
            replay_buffer=dict(replay_buffer_size=400000),  # env steps
        ),
    ),
)
main_config = atari_discrete_sac_config

atari_discrete_sac_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="discrete_sac"),
)
create_config = atari_discrete_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
