"""COMA on Penalty-v0, 25 times: with a penalty of -100 most runs avoid the corners, for a return of 50.

Result: 50 and 250 with two seeds, after 10,000 env steps; 250 and 250 with `env.penalty=0`, after 20,000.
"""

from easydict import EasyDict

penalty_coma_config = EasyDict(
    exp_name="penalty_coma_seed0",
    env=dict(
        env_id="Penalty-v0",
        penalty=-100.0,
        stop_value=50,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64],
            critic_hidden_size_list=[64],
            lstm_type=None,
        ),
        discount_factor=0.9,
        learn=dict(
            batch_size=200,
            learning_rate=0.002,
            entropy_weight=0.1,
        ),
        collect=dict(n_sample=200),
        eval=dict(evaluator=dict(eval_freq=50, eval_after=50)),
    ),
)
main_config = penalty_coma_config

penalty_coma_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="coma"),
)
create_config = penalty_coma_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
