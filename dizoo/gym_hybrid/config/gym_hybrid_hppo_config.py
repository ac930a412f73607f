"""PPO with hybrid actions on Moving-v0, a vehicle that drives to a target and stops there. No result is recorded."""

from easydict import EasyDict

gym_hybrid_hppo_config = EasyDict(
    exp_name="gym_hybrid_hppo_seed0",
    env=dict(
        env_id="Moving-v0",
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=1.8,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            action_space="hybrid",
            encoder_hidden_size_list=[256, 128, 64, 64],
            sigma_type="fixed",
            bound_type="tanh",
        ),
        learn=dict(
            batch_size=320,
            entropy_weight=0.03,
        ),
        collect=dict(n_sample=3200),
        eval=dict(evaluator=dict(eval_freq=500)),
    ),
)
main_config = gym_hybrid_hppo_config

gym_hybrid_hppo_create_config = EasyDict(
    env=dict(
        type="gym_hybrid",
        import_names=["dizoo.gym_hybrid.envs.gym_hybrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)
create_config = gym_hybrid_hppo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
