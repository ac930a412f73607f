"""DQN on LunarLander-v3, solved at a mean return of 200. No result is recorded."""

from easydict import EasyDict

lunarlander_dqn_config = EasyDict(
    exp_name="lunarlander_dqn_seed0",
    env=dict(
        env_id="LunarLander-v3",
        n_evaluator_episode=24,
        stop_value=200,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[512, 64],
            dueling=True,
        ),
        learn=dict(
            update_per_collect=10,
            target_update_freq=100,
        ),
        collect=dict(n_sample=64),
        other=dict(
            eps=dict(decay=50000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = lunarlander_dqn_config

lunarlander_dqn_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = lunarlander_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
