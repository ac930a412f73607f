"""TD3+BC from recorded play on Hopper-v5, a Minari data set.

Not trained to its end here.
"""

from easydict import EasyDict

hopper_td3_bc_config = EasyDict(
    exp_name="hopper_td3_bc_seed0",
    env=dict(
        env_id="Hopper-v5",
        act_scale=True,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=6000,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        discount_factor=0.99,
        model=dict(
            obs_shape=11,
            action_shape=3,
            twin_critic=True,
            action_space="regression",
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            train_epoch=250,
            batch_size=256,
            learning_rate_actor=3e-4,
            learning_rate_critic=3e-4,
            target_theta=0.005,
            actor_update_freq=2,
            noise=True,
            noise_sigma=0.2,
            noise_range=dict(min=-0.5, max=0.5),
            alpha=2.5,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_td3_bc_config

hopper_td3_bc_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="td3_bc"),
)
create_config = hopper_td3_bc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
