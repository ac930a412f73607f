"""EDAC from recorded data of Pendulum-v1, solved at a mean return of -250; training stops at -185.

The data set contains 20,000 env steps of a policy that `pendulum_ppo_config.py` trained. Record it in the directory of
that run with `collect_demo_data("total_config.py", 0, 20_000, "expert_demos.hdf5", explore=True)`.
No result is recorded.
"""

from easydict import EasyDict

pendulum_edac_config = EasyDict(
    exp_name="pendulum_edac_seed0",
    env=dict(
        env_id="Pendulum-v1",
        evaluator_env_num=20,
        n_evaluator_episode=100,
        stop_value=-185,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        model=dict(
            ensemble_num=5,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
            critic_head_layer_num=2,
        ),
        learn=dict(
            init_w=None,
            train_epoch=60,
            batch_size=128,
            learning_rate_q=1e-3,
            learning_rate_policy=1e-3,
            learning_rate_alpha=1e-3,
            alpha=0.2,
            target_theta=0.02,
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./pendulum_ppo_seed0/expert_demos.hdf5",
        ),
    ),
)
main_config = pendulum_edac_config

pendulum_edac_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="edac"),
)
create_config = pendulum_edac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
