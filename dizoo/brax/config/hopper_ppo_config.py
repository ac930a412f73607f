"""PPO on Brax's hopper, 512 robots that step as one tensor, with the fastest physics of Brax; extra `brax`.

Result: 1,650 over 20 episodes with one of two seeds, after 1,229,000 env steps; the other, which hardly leaves its
place, reached 1,106 in 4,014,000.
"""

from easydict import EasyDict

hopper_ppo_config = EasyDict(
    exp_name="hopper_ppo_seed0",
    env=dict(
        env_id="hopper",
        collector_env_num=512,
        evaluator_env_num=20,
        n_evaluator_episode=20,
        stop_value=1500,
        norm_obs=True,
        kwargs=dict(backend="spring"),
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.997,
        model=dict(share_encoder=False),
        learn=dict(
            batch_size=2048,
            learning_rate=0.0005,
            epoch_per_collect=5,
            entropy_weight=0.001,
        ),
        collect=dict(
            n_sample=20480,
        ),
        eval=dict(evaluator=dict(eval_freq=500)),
    ),
)
main_config = hopper_ppo_config

hopper_ppo_create_config = EasyDict(
    env=dict(
        type="brax",
        import_names=["dizoo.brax.envs.brax_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="ppo"),
)
create_config = hopper_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
