"""ACER on LunarLander-v3, solved at a mean return of 200; training stops at 230.

Result: 217 to 228 over 100 new episodes with three seeds, after 266,000 to 500,000 env steps.
"""

from easydict import EasyDict

lunarlander_acer_config = EasyDict(
    exp_name="lunarlander_acer_seed0",
    env=dict(
        env_id="LunarLander-v3",
        evaluator_env_num=5,
        n_evaluator_episode=20,
        stop_value=230,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.99,
        model=dict(
            encoder_hidden_size_list=[512, 64],
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=32,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            entropy_weight=0.003,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=5000),
        ),
    ),
)
main_config = lunarlander_acer_config

lunarlander_acer_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="acer"),
)
create_config = lunarlander_acer_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
