"""A2C on any Atari game, on Pong unless `env.env_id` names another one.

Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_a2c_config = EasyDict(
    exp_name="atari_a2c_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        collector_env_num=16,
    ),
    policy=dict(
        cuda=True,
        discount_factor=0.99,
        model=dict(
            encoder_hidden_size_list=[32, 64, 64, 256],
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
            critic_head_layer_num=2,
        ),
        learn=dict(
            batch_size=160,
            learning_rate=0.0001414,
            betas=[0.0, 0.99],
        ),
        collect=dict(
            n_sample=160,  # env steps
            gae_lambda=0.99,
        ),
        eval=dict(evaluator=dict(eval_freq=500)),  # learner iterations
    ),
)
main_config = atari_a2c_config

atari_a2c_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="a2c"),
)
create_config = atari_a2c_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=int(1e7))
