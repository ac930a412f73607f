"""NGU on MiniGrid-MultiRoom-N2-S4-v0 with three rooms instead of two, up to a mean return of 0.7.

The rooms lie behind closed doors, and only the goal in the last one has a reward. Random play has not found it in 150
episodes. The shortest ways earn about 0.7 to 0.85.

Result: 0.7 after 202,000 and 323,000 env steps with two seeds; 0.71 and 0.72 over 104 new episodes.
"""

from easydict import EasyDict

minigrid_ngu_config = EasyDict(
    exp_name="minigrid_ngu_seed0",
    env=dict(
        env_id="MiniGrid-MultiRoom-N2-S4-v0",
        kwargs=dict(minNumRooms=3, maxNumRooms=3, maxRoomSize=4),
        onehot_obs=True,
        collector_env_num=16,
        n_evaluator_episode=40,
        stop_value=0.7,
    ),
    reward_model=dict(
        intrinsic_reward_weight=0.01,
        final_reward_weight=10.0,
        learning_rate=0.0005,
        hidden_size_list=[64, 32],
        batch_size=256,
        update_per_collect=2,
    ),
    policy=dict(
        num_threads=1,
        num_policies=2,
        unroll_len=20,
        burnin_step=10,
        model=dict(encoder_hidden_size_list=[64, 64], lstm_type="pytorch"),
        learn=dict(update_per_collect=8, batch_size=32, learning_rate=0.0005, target_theta=0.005),
        eval=dict(evaluator=dict(eval_freq=500)),
        other=dict(replay_buffer=dict(replay_buffer_size=5000)),
    ),
)
main_config = minigrid_ngu_config

minigrid_ngu_create_config = EasyDict(
    env=dict(
        type="minigrid",
        import_names=["dizoo.minigrid.envs.minigrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ngu"),
    reward_model=dict(type="ngu"),
)
create_config = minigrid_ngu_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
