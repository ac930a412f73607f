"""R2D2 on MiniGrid-Empty-8x8-v0, solved at a mean return of 0.95; the shortest path earns 0.96.

Values of DI-engine, except for a smaller buffer, not trained here.
"""

from easydict import EasyDict

minigrid_r2d2_config = EasyDict(
    exp_name="minigrid_r2d2_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=0.95,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[256, 128, 64, 64]),
        unroll_len=80,  # env steps
        learn=dict(
            update_per_collect=8,  # learner iterations
            batch_size=64,  # sequences of 80 env steps
            learning_rate=0.0005,
            target_update_freq=2500,  # learner iterations
        ),
        collect=dict(n_sample=32),  # sequences of 80 env steps
        other=dict(
            replay_buffer=dict(replay_buffer_size=2000),  # sequences of 80 env steps
        ),
    ),
)
main_config = minigrid_r2d2_config

minigrid_r2d2_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="r2d2"),
)
create_config = minigrid_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
