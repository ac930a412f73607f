"""AWAC on Pendulum-v1: from recorded data first, and on by playing.

The data set contains 10,000 env steps of a policy that `pendulum_sac_config.py` trained to -450. Record it in the
directory of that run with `collect_demo_data("total_config.py", 0, 10_000, "medium.hdf5", explore=True)`.
Result: -296, -380 and -213 before the first env step, three seeds, and -228, -284 and -227 after 8,000 to 10,000.
"""

from easydict import EasyDict

pendulum_awac_config = EasyDict(
    exp_name="pendulum_awac_seed0",
    env=dict(
        env_id="Pendulum-v1",
        collector_env_num=10,
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=None,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            batch_size=256,
            update_per_collect=5,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            ignore_done=True,
            beta=0.1,
        ),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(
            replay_buffer=dict(
                type="demonstrations",
                replay_buffer_size=100000,
                data_path="./pendulum_sac_seed0/medium.hdf5",
                first_updates=5000,
                ratio=None,
            ),
        ),
    ),
)
main_config = pendulum_awac_config

pendulum_awac_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="awac"),
)
create_config = pendulum_awac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
