"""QR-DQN on LunarLander, with the values of DI-engine's file of the same name."""

from easydict import EasyDict

lunarlander_qrdqn_config = EasyDict(
    exp_name="lunarlander_qrdqn_seed0",
    env=dict(
        env_id="LunarLander-v3",
        stop_value=200,
    ),
    policy=dict(
        num_threads=1,
        collect=dict(n_sample=128),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = lunarlander_qrdqn_config

lunarlander_qrdqn_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="qrdqn"),
)
create_config = lunarlander_qrdqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
