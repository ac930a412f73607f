"""PPO with continuous actions on Hopper-v5, up to a mean return of 4000. No result is recorded."""

from easydict import EasyDict

hopper_onppo_config = EasyDict(
    exp_name="hopper_onppo_seed0",
    env=dict(
        env_id="Hopper-v5",
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=4000,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
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
            batch_size=128,
            lr_scheduler=dict(epoch_num=1500, min_lr_lambda=0),
            entropy_weight=0.001,
        ),
        collect=dict(
            n_sample=2048,
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
