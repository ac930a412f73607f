"""P-DQN on Moving-v0, a vehicle that drives to a target and stops there; the best mean return is about 2.

Result: 0.90 at best within 200,000 env steps, one seed; the goal of 1.8 was not reached.
"""

from easydict import EasyDict

gym_hybrid_pdqn_config = EasyDict(
    exp_name="gym_hybrid_pdqn_seed0",
    env=dict(
        env_id="Moving-v0",
        evaluator_env_num=10,
        n_evaluator_episode=20,
        stop_value=1.8,
    ),
    policy=dict(
        num_threads=1,
        discount_factor=0.995,
        nstep=20,
        model=dict(
            encoder_hidden_size_list=[128, 128],
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate_dis=3e-4,
            learning_rate_cont=3e-4,
            target_theta=0.01,
        ),
        collect=dict(n_sample=64),
        other=dict(
            eps=dict(
                start=1.0,
                end=0.05,
            ),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = gym_hybrid_pdqn_config

gym_hybrid_pdqn_create_config = EasyDict(
    env=dict(
        type="gym_hybrid",
        import_names=["dizoo.gym_hybrid.envs.gym_hybrid_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="pdqn"),
)
create_config = gym_hybrid_pdqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
