"""D4PG on HalfCheetah-v5, up to a mean return of 20000. Values of DI-engine, not trained here."""

from easydict import EasyDict

halfcheetah_d4pg_config = EasyDict(
    exp_name="halfcheetah_d4pg_seed0",
    env=dict(
        env_id="HalfCheetah-v5",
        collector_env_num=4,
        evaluator_env_num=4,
        stop_value=20000,
    ),
    policy=dict(
        num_threads=1,
        nstep=5,
        random_collect_size=10000,
        model=dict(
            actor_head_hidden_size=512,
            critic_head_hidden_size=512,
            v_min=0,
            v_max=5000,
        ),
        learn=dict(
            update_per_collect=4,
            batch_size=256,
            learning_rate_actor=0.0003,
            learning_rate_critic=0.0003,
            ignore_done=True,
        ),
        collect=dict(
            n_sample=8,
            noise_sigma=0.2,
        ),
    ),
)
main_config = halfcheetah_d4pg_config

halfcheetah_d4pg_create_config = EasyDict(
    env=dict(
        type="mujoco",
        import_names=["dizoo.mujoco.envs.mujoco_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="d4pg"),
)
create_config = halfcheetah_d4pg_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
