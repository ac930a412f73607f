"""PPO with continuous actions on Walker2d-v5, up to a mean return of 6000. Values of DI-engine, not trained here."""

from easydict import EasyDict

walker2d_onppo_config = EasyDict(
    exp_name="walker2d_onppo_seed0",
    env=dict(
        env_id="Walker2d-v5",
        stop_value=6000,
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
            entropy_weight=0.001,
        ),
        collect=dict(n_sample=2048),  # env steps
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
    ),
)
main_config = walker2d_onppo_config

walker2d_onppo_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = walker2d_onppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
