"""TQC on LunarLanderContinuous-v3, solved at a mean return of 200; training stops at 240.

Result: seed 0 was stopped after 32,000 env steps; its best evaluation was 149.
"""

from easydict import EasyDict

lunarlander_cont_tqc_config = EasyDict(
    exp_name="lunarlander_cont_tqc_seed0",
    env=dict(
        env_id="LunarLanderContinuous-v3",
        collector_env_num=4,
        n_evaluator_episode=24,
        stop_value=240,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            actor_head_hidden_size=256,
            critic_head_hidden_size=256,
        ),
        learn=dict(
            update_per_collect=256,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_alpha=0.001,
            target_theta=0.01,
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=4096)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = lunarlander_cont_tqc_config

lunarlander_cont_tqc_create_config = EasyDict(
    env=dict(
        type="lunarlander",
        import_names=["dizoo.box2d.lunarlander.envs.lunarlander_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="tqc"),
)
create_config = lunarlander_cont_tqc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
