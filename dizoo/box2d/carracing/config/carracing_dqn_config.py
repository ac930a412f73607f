"""DQN on CarRacing-v3 with five moves; solved at a mean return of 900. No result is recorded."""

from easydict import EasyDict

carracing_dqn_config = EasyDict(
    exp_name="carracing_dqn_seed0",
    env=dict(
        env_id="CarRacing-v3",
        stop_value=900,
    ),
    policy=dict(
        model=dict(
            encoder_hidden_size_list=[64, 64, 128],
            dueling=True,
        ),
        learn=dict(
            update_per_collect=10,
            learning_rate=0.0001,
            target_update_freq=100,
        ),
        collect=dict(n_sample=64),
        other=dict(
            eps=dict(decay=50000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = carracing_dqn_config

carracing_dqn_create_config = EasyDict(
    env=dict(
        type="carracing",
        import_names=["dizoo.box2d.carracing.envs.carracing_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="dqn"),
)
create_config = carracing_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
