"""R2D2 on Memory-v0, a cue to be remembered; the best return is 1, and 0 without a memory.

Result: 1 with five of five seeds, after 2,000 to 5,000 env steps.
"""

from easydict import EasyDict

memory_r2d2_config = EasyDict(
    exp_name="memory_r2d2_seed0",
    env=dict(
        env_id="Memory-v0",
        n_evaluator_episode=32,
        stop_value=0.99,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[32],
            lstm_type="pytorch",
        ),
        priority=True,
        priority_IS_weight=True,
        discount_factor=0.95,
        nstep=3,
        unroll_len=8,
        burnin_step=2,
        learn=dict(
            update_per_collect=4,
            batch_size=32,
            learning_rate=0.003,
            target_theta=0.05,
        ),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            eps=dict(start=1.0, end=0.1, decay=4000),
        ),
    ),
)
main_config = memory_r2d2_config

memory_r2d2_create_config = EasyDict(
    env=dict(
        type="memory",
        import_names=["dizoo.memory.envs.memory_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="r2d2"),
)
create_config = memory_r2d2_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
