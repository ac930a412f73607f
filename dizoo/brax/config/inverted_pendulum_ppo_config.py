"""PPO on Brax's inverted_pendulum, 256 robots that step as one tensor; extra `brax`.

Result: 1,000, the most possible, over 20 episodes after 61,440 env steps (seed 0).
"""

from easydict import EasyDict

inverted_pendulum_ppo_config = EasyDict(
    exp_name="inverted_pendulum_ppo_seed0",
    env=dict(
        env_id="inverted_pendulum",
        collector_env_num=256,
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=1000,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.97,
        model=dict(share_encoder=False),
        learn=dict(
            batch_size=1024,
            entropy_weight=0.001,
        ),
        collect=dict(
            n_sample=5120,
        ),
        eval=dict(evaluator=dict(eval_freq=300)),
    ),
)
main_config = inverted_pendulum_ppo_config

inverted_pendulum_ppo_create_config = EasyDict(
    env=dict(
        type="brax",
        import_names=["dizoo.brax.envs.brax_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="ppo"),
)
create_config = inverted_pendulum_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
