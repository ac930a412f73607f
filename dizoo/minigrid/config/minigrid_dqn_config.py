"""DQN on MiniGrid-Empty-8x8-v0, solved at a mean return of 0.95; the shortest path earns 0.96.

DI-engine has no such file.
Not trained here.
"""

from easydict import EasyDict

minigrid_dqn_config = EasyDict(
    exp_name="minigrid_dqn_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        onehot_obs=True,
        stop_value=0.95,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[128, 64]),
        nstep=5,  # env steps
        learn=dict(
            update_per_collect=8,  # learner iterations
            target_update_freq=500,  # learner iterations
        ),
        collect=dict(n_sample=64),  # env steps
        eval=dict(evaluator=dict(eval_freq=500)),  # learner iterations
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=20000),  # env steps
            replay_buffer=dict(replay_buffer_size=50000),  # env steps
        ),
    ),
)
main_config = minigrid_dqn_config

minigrid_dqn_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = minigrid_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
