"""IMPALA on CartPole-v0, solved at a mean return of 195."""

from easydict import EasyDict

cartpole_impala_config = EasyDict(
    exp_name="cartpole_impala_seed0",
    env=dict(
        env_id="CartPole-v0",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        discount_factor=0.9,
        unroll_len=8,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(
            update_per_collect=4,
            batch_size=16,
            learning_rate=0.0005,
            value_weight=0.5,
            entropy_weight=0.0001,
            lambda_=0.95,
            rho_clip_ratio=1.0,
            c_clip_ratio=1.0,
            rho_pg_clip_ratio=1.0,
        ),
        collect=dict(n_sample=16),
        eval=dict(evaluator=dict(eval_freq=200)),
        other=dict(replay_buffer=dict(replay_buffer_size=1000)),
    ),
)
main_config = cartpole_impala_config

cartpole_impala_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="impala"),
)
create_config = cartpole_impala_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
