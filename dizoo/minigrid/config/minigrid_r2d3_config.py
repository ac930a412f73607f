"""R2D3 on MiniGrid-MultiRoom-N4-S5-v0 from ten demonstrations on the shortest way, up to a mean return of 0.7.

Random play does not find the goal of this room. Record the demonstrations first:

    python -m dizoo.minigrid.record_multiroom dizoo/minigrid/config/minigrid_r2d3_config.py multiroom.npz

R2D2 alone stood at 0 after 100,000 env steps.
Result: 0.7 after 81,000, 41,000 and 81,000 env steps with three seeds; 0.71, 0.71 and 0.75 over 104 new episodes.
"""

from easydict import EasyDict

minigrid_r2d3_config = EasyDict(
    exp_name="minigrid_r2d3_seed0",
    env=dict(
        env_id="MiniGrid-MultiRoom-N4-S5-v0",
        onehot_obs=True,
        collector_env_num=16,
        n_evaluator_episode=40,
        stop_value=0.7,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.99,
        unroll_len=20,  # env steps
        burnin_step=10,  # env steps
        model=dict(encoder_hidden_size_list=[64, 64], lstm_type="pytorch"),
        learn=dict(
            update_per_collect=8,  # learner iterations
            batch_size=32,  # sequences
            learning_rate=0.0005,
            target_theta=0.005,
            lambda2=1.0,
            margin_function=0.05,
            lambda_one_step_td=1.0,
        ),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(
            eps=dict(start=0.4, end=0.4, spread=8.0),
            replay_buffer=dict(
                type="demonstration_sequences", data_path="multiroom.npz", ratio=0.25, replay_buffer_size=5000
            ),
        ),
    ),
)
main_config = minigrid_r2d3_config

minigrid_r2d3_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="r2d3"),
)
create_config = minigrid_r2d3_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
