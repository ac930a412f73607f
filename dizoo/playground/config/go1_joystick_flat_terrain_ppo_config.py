"""PPO on MuJoCo Playground's Go1JoystickFlatTerrain, 4,096 robots on a GPU; extra `playground`.

The values are those of `mujoco_playground.config.locomotion_params` for Brax's PPO, which has 8,192 robots. Its critic
sees `privileged_state`, which has no noise and more of the physics, and its actor sees `state`. Here the critic sees
both. One collect of 64 robots and its updates ran on a CPU, without the meshes, which are only drawn. Not trained here.
"""

from easydict import EasyDict

go1_joystick_flat_terrain_ppo_config = EasyDict(
    exp_name="go1_joystick_flat_terrain_ppo_seed0",
    env=dict(
        env_id="Go1JoystickFlatTerrain",
        collector_env_num=4096,
        evaluator_env_num=128,
        n_evaluator_episode=128,
        norm_obs=True,
    ),
    policy=dict(
        cuda=True,
        discount_factor=0.97,
        model=dict(
            share_encoder=False,
            critic_obs=["privileged_state"],
            encoder_hidden_size_list=[512, 256, 128],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="silu",
        ),
        learn=dict(
            batch_size=5120,
            epoch_per_collect=4,
            entropy_weight=0.01,
            grad_clip_value=1.0,
        ),
        collect=dict(
            n_sample=81920,  # 20 steps of each robot
        ),
        eval=dict(evaluator=dict(eval_freq=3200)),
    ),
)
main_config = go1_joystick_flat_terrain_ppo_config

go1_joystick_flat_terrain_ppo_create_config = EasyDict(
    env=dict(
        type="playground",
        import_names=["dizoo.playground.envs.playground_env"],
    ),
    env_manager=dict(type="batched"),
    policy=dict(type="ppo"),
)
create_config = go1_joystick_flat_terrain_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
