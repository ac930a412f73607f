"""PPO from a replay buffer on CartPole-v0, solved at a mean return of 195."""

from easydict import EasyDict

cartpole_ppo_offpolicy_config = EasyDict(
    exp_name="cartpole_ppo_offpolicy_seed0",
    env=dict(
        env_id="CartPole-v0",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        discount_factor=0.9,
        model=dict(
            obs_shape=4,
            action_shape=2,
            action_space="discrete",
            encoder_hidden_size_list=[64, 64, 128],
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=6,
            batch_size=64,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
        ),
        collect=dict(
            n_sample=128,
            gae_lambda=0.95,
        ),
        eval=dict(evaluator=dict(eval_freq=40)),
        other=dict(replay_buffer=dict(replay_buffer_size=5000)),
    ),
)
main_config = cartpole_ppo_offpolicy_config

cartpole_ppo_offpolicy_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo_offpolicy"),
)
create_config = cartpole_ppo_offpolicy_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
