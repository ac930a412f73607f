"""Decision Transformer from recorded data of Pendulum-v1, solved at a mean return of -250; training stops at -185.

The data set contains 20,000 env steps of a policy that `pendulum_ppo_config.py` trained. Record it in the directory of
that run with `collect_demo_data("total_config.py", 0, 20_000, "expert_demos.hdf5", explore=True)`.
Result: -149.5 over 100 new episodes after 4,000 iterations, from the data set `expert` of
`tests/benchmarks/offline_scores.py`; the expert -142.6.
"""

from easydict import EasyDict

pendulum_dt_config = EasyDict(
    exp_name="pendulum_dt_seed0",
    env=dict(
        env_id="Pendulum-v1",
        evaluator_env_num=20,
        n_evaluator_episode=100,
        stop_value=-185,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        context_len=5,
        rtg_target=-150.0,
        model=dict(
            n_blocks=1,
            h_dim=32,
            max_timestep=200,
        ),
        learn=dict(
            train_epoch=60,
            learning_rate=1e-3,
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./pendulum_ppo_seed0/expert_demos.hdf5",
        ),
    ),
)
main_config = pendulum_dt_config

pendulum_dt_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dt"),
)
create_config = pendulum_dt_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
