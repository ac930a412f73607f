"""PPO on LunarLander-v3, solved at a mean return of 200; training stops at 230.

Result: 230 with five of five seeds, after 123,000 to 328,000 env steps; 235 to 261 over 100 new episodes.
"""

from easydict import EasyDict

lunarlander_ppo_config = EasyDict(
    exp_name="lunarlander_ppo_seed0",
    env=dict(
        env_id="LunarLander-v3",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=230,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.999,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=2048,
            gae_lambda=0.98,
        ),
        eval=dict(evaluator=dict(eval_freq=3200)),
    ),
)
main_config = lunarlander_ppo_config

lunarlander_ppo_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = lunarlander_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
