"""SQN on any Atari game, on Pong unless `env.env_id` names another one.

DI-engine has no such file. Network, learning rate and buffer are those of `atari_dqn_config.py`.
Not trained here.
"""

from easydict import EasyDict

atari_sqn_config = EasyDict(
    exp_name="atari_sqn_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        model=dict(encoder_hidden_size_list=[128, 128, 512]),
        nstep=3,  # env steps
        learn=dict(
            update_per_collect=10,  # learner iterations
            batch_size=32,
            learning_rate_q=0.0001,
        ),
        collect=dict(n_sample=96),  # env steps
        eval=dict(evaluator=dict(eval_freq=4000)),  # learner iterations
        other=dict(
            eps=dict(decay=1000000),  # env steps
            replay_buffer=dict(replay_buffer_size=400000),  # env steps
        ),
    ),
)
main_config = atari_sqn_config

atari_sqn_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="sqn"),
)
create_config = atari_sqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0, max_env_step=int(1e7))
