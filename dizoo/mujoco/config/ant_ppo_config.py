"""PPO with continuous actions on Ant-v5, up to a mean return of 6000, with the class's small network.

Values of DI-engine, not trained here.
"""

from easydict import EasyDict

ant_ppo_config = EasyDict(
    exp_name="ant_ppo_seed0",
    env=dict(
        env_id="Ant-v5",
        evaluator_env_num=10,
        n_evaluator_episode=10,
        stop_value=6000,
    ),
    policy=dict(
        num_threads=1,
        collect=dict(
            n_sample=2048,  # env steps
            gae_lambda=0.97,
        ),
        eval=dict(evaluator=dict(eval_freq=5000)),  # learner iterations
    ),
)
main_config = ant_ppo_config

ant_ppo_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = ant_ppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
