"""HAPPO on TwoStep-v0; the best return is 8.

It also plays Penalty-v0, 25 times: `env.env_id=Penalty-v0 env.penalty=-100 env.stop_value=50`. With this penalty the
agents avoid the corners, for a return of 50.
Result: 8 with both of two seeds, after 3,840 env steps. On Penalty-v0 50 with both of two seeds, after 1,280 env
steps, and 250 with `env.penalty=0`.
"""

from easydict import EasyDict

two_step_happo_config = EasyDict(
    exp_name="two_step_happo_seed0",
    env=dict(
        env_id="TwoStep-v0",
        stop_value=8,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[64],
            actor_head_layer_num=1,
            activation="tanh",
        ),
        learn=dict(
            entropy_weight=0.05,
        ),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=400, eval_after=400)),
    ),
)
main_config = two_step_happo_config

two_step_happo_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="happo"),
)
create_config = two_step_happo_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
