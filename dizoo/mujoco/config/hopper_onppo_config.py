"""PPO with continuous actions on Hopper-v5, to a mean return of 4000."""

from easydict import EasyDict

hopper_onppo_config = EasyDict(
    exp_name="hopper_onppo_seed0",
    env=dict(
        env_id="Hopper-v5",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=4000,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        discount_factor=0.99,
        recompute_adv=True,
        model=dict(
            obs_shape=11,
            action_shape=3,
            action_space="continuous",
            share_encoder=False,
            encoder_hidden_size_list=[128, 128],
            actor_head_layer_num=0,
            actor_head_hidden_size=128,
            critic_head_layer_num=2,
            critic_head_hidden_size=256,
            activation="tanh",
            bound_type="tanh",
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=128,
            learning_rate=0.0003,
            lr_scheduler=dict(epoch_num=1500, min_lr_lambda=0),
            value_weight=0.5,
            entropy_weight=0.001,
            clip_ratio=0.2,
            adv_norm=True,
            value_norm=True,
            grad_clip_type="clip_norm",
            grad_clip_value=0.5,
        ),
        collect=dict(
            n_sample=2048,
            gae_lambda=0.95,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),
    ),
)
main_config = hopper_onppo_config

hopper_onppo_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = hopper_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
