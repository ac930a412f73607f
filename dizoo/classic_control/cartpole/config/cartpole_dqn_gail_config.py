"""GAIL of an expert on CartPole-v0 with DQN, solved at a mean return of 195; it takes seconds on one core.

The expert is the run of `cartpole_dqn_config.py`, whose best policy plays ten episodes first; a data set would do too.
Result: 195 with three of three seeds, after 2,000 to 3,900 env steps; 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_dqn_gail_config = EasyDict(
    exp_name="cartpole_dqn_gail_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        norm_obs=True,
        n_evaluator_episode=10,
        stop_value=195,
    ),
    reward_model=dict(
        data_path="./cartpole_dqn_seed0",
        expert_episodes=10,
        update_per_collect=20,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        learn=dict(
            update_per_collect=20,
            batch_size=64,
            learning_rate=0.0005,
            target_theta=0.01,
        ),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            eps=dict(end=0.05, decay=3000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = cartpole_dqn_gail_config

cartpole_dqn_gail_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
    reward_model=dict(type="gail"),
)
create_config = cartpole_dqn_gail_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
