"""Off-policy PPO on MiniGrid-Empty-8x8-v0, solved at a mean return of 0.95; the shortest path earns 0.96.

Values of DI-engine, not trained here.
"""

from easydict import EasyDict

minigrid_offppo_config = EasyDict(
    exp_name="minigrid_offppo_seed0",
    env=dict(
        env_id="MiniGrid-Empty-8x8-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=0.95,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[256, 128, 64, 64]),
        learn=dict(
            update_per_collect=4,  # learner iterations
            batch_size=64,
            learning_rate=0.0003,
            entropy_weight=0.001,
        ),
        collect=dict(n_sample=128),  # env steps
    ),
)
main_config = minigrid_offppo_config

minigrid_offppo_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo_offpolicy"),
)
create_config = minigrid_offppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
