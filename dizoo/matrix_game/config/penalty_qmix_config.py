"""QMIX on Penalty-v0, 25 times: with a penalty of -100 the agents avoid the corners, for a return of 50.

Result: 50 with both of two seeds, and 250 with `env.penalty=0`; the same for VDN, `policy.model.mixer=False`.
"""

from easydict import EasyDict

penalty_qmix_config = EasyDict(
    exp_name="penalty_qmix_seed0",
    env=dict(
        env_id="Penalty-v0",
        penalty=-100.0,
        stop_value=50,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64],
            lstm_type=None,
        ),
        discount_factor=0.9,
        unroll_len=1,
        random_collect_size=200,
        learn=dict(
            update_per_collect=2,
            target_theta=0.01,
        ),
        eval=dict(evaluator=dict(eval_after=2000)),
        other=dict(
            eps=dict(decay=4000),
        ),
    ),
)
main_config = penalty_qmix_config

penalty_qmix_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="qmix"),
)
create_config = penalty_qmix_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
