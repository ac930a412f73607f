"""PQN on Acrobot-v1, solved at a mean return of -100; training stops at -95.

Result: -95 with three of three seeds, after 36,000 to 102,000 env steps; -99 to -91 over 100 new episodes.
"""

from easydict import EasyDict

acrobot_pqn_config = EasyDict(
    exp_name="acrobot_pqn_seed0",
    env=dict(
        env_id="Acrobot-v1",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=-95,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[120, 84],
            head_layer_num=0,
            dueling=False,
        ),
        learn=dict(
            batch_size=128,
            learning_rate=0.001,
        ),
        collect=dict(
            n_sample=512,
            q_lambda=0.95,
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
        other=dict(
            eps=dict(type="linear", decay=60000),
        ),
    ),
)
main_config = acrobot_pqn_config

acrobot_pqn_create_config = EasyDict(
    env=dict(
        type="acrobot",
        import_names=["dizoo.classic_control.acrobot.envs.acrobot_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="pqn"),
)
create_config = acrobot_pqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
