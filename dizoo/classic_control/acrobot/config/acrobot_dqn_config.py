"""DQN on Acrobot-v1; training stops at a mean return of -80. No result is recorded."""

from easydict import EasyDict

acrobot_dqn_config = EasyDict(
    exp_name="acrobot_dqn_seed0",
    env=dict(
        env_id="Acrobot-v1",
        stop_value=-80,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[256, 256],
            dueling=True,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate=0.0001,
            target_update_freq=250,
        ),
        collect=dict(n_sample=96),
        eval=dict(evaluator=dict(eval_freq=2000)),
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=250000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = acrobot_dqn_config

acrobot_dqn_create_config = EasyDict(
    env=dict(
        type="acrobot",
        import_names=["dizoo.classic_control.acrobot.envs.acrobot_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = acrobot_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
