"""Implicit Q-learning from recorded play on Hopper-v5, a Minari data set.

Not trained to its end here.
"""

from easydict import EasyDict

hopper_iql_config = EasyDict(
    exp_name="hopper_iql_seed0",
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
            action_space="reparameterization",
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            train_epoch=250,
            batch_size=256,
            learning_rate_q=3e-4,
            learning_rate_value=3e-4,
            learning_rate_policy=3e-4,
            target_theta=0.005,
            tau=0.7,
            beta=3.0,
        ),
        collect=dict(
            data_type="minari",
            data_path="mujoco/hopper/medium-v0",
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_iql_config

hopper_iql_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="iql"),
)
create_config = hopper_iql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
