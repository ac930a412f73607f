"""MASAC on TwoStep-v0; the best return is 8.

It also plays Penalty-v0, 25 times: `env.env_id=Penalty-v0 env.penalty=-100 env.stop_value=50`. With this penalty the
agents avoid the corners, for a return of 50.
Result: 8 with both of two seeds, after 5,504 and 2,504 env steps. On Penalty-v0 50 with both of two seeds, after
1,504 env steps, and 250 with `env.penalty=0`.
"""

from easydict import EasyDict

two_step_masac_config = EasyDict(
    exp_name="two_step_masac_seed0",
    env=dict(
        env_id="TwoStep-v0",
        stop_value=8,
    ),
    policy=dict(
        num_threads=1,
        multi_agent=True,
        random_collect_size=500,
        model=dict(
            actor_head_hidden_size=64,
            critic_head_hidden_size=64,
        ),
        learn=dict(
            update_per_collect=4,
            batch_size=64,
            learning_rate_q=1e-3,
            learning_rate_policy=1e-3,
            target_theta=0.01,
            auto_alpha=False,
        ),
        eval=dict(evaluator=dict(eval_freq=500, eval_after=500)),
        other=dict(
            replay_buffer=dict(replay_buffer_size=5000),
        ),
    ),
)
main_config = two_step_masac_config

two_step_masac_create_config = EasyDict(
    env=dict(
        type="matrix_game",
        import_names=["dizoo.matrix_game.envs.matrix_game_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_sac"),
)
create_config = two_step_masac_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
