"""DQfD on MountainCar-v0 with 10 demonstrations, solved at a mean return of -110.

The data set contains 10 episodes of a policy that `mtcar_ppo_config.py` trained. Record it in the directory of that run
with `collect_demo_data("total_config.py", 0, 10, "expert_demos.npz", collect_episodes=True)`.
Result: -110 with three of three seeds, after 10,000 to 26,000 env steps; -115 to -128 before the first one.
"""

from easydict import EasyDict

mtcar_dqfd_config = EasyDict(
    exp_name="mtcar_dqfd_seed0",
    env=dict(
        env_id="MountainCar-v0",
        scale_obs=True,
        stop_value=-110,
    ),
    policy=dict(
        num_threads=1,
        priority=True,
        priority_IS_weight=True,
        model=dict(encoder_hidden_size_list=[128, 128]),
        learn=dict(
            batch_size=64,
            learning_rate=0.0005,
            update_per_collect=4,
            target_update_freq=200,
        ),
        collect=dict(n_sample=16),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(
            eps=dict(type="linear", start=0.1, end=0.02, decay=20000),
            replay_buffer=dict(
                type="demonstrations",
                replay_buffer_size=50000,
                data_path="./mtcar_ppo_seed0/expert_demos.npz",
                ratio=0.25,
                first_updates=2000,
                alpha=0.4,
                beta=0.6,
            ),
        ),
    ),
)
main_config = mtcar_dqfd_config

mtcar_dqfd_create_config = EasyDict(
    env=dict(
        type="mountain_car",
        import_names=["dizoo.classic_control.mountain_car.envs.mtcar_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqfd"),
)
create_config = mtcar_dqfd_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
