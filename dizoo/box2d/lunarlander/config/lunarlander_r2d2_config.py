"""R2D2 on LunarLander-v3, solved at a mean return of 200; training stops at 195, as in DI-engine's file.

No result is recorded.
"""

from easydict import EasyDict

lunarlander_r2d2_config = EasyDict(
    exp_name="lunarlander_r2d2_seed0",
    env=dict(
        env_id="LunarLander-v3",
        evaluator_env_num=5,
        n_evaluator_episode=20,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            lstm_type="pytorch",
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=64,
            learning_rate=0.0005,
        ),
        collect=dict(n_sample=16),
        other=dict(
            replay_buffer=dict(replay_buffer_size=5000),
        ),
    ),
)
main_config = lunarlander_r2d2_config

lunarlander_r2d2_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="r2d2"),
)
create_config = lunarlander_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
