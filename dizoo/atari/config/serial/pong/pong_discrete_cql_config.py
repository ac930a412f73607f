"""Conservative Q-learning from recorded data of Atari Pong, solved at a mean return of 20.

`collect_demo_data` records the data set, with the config that the recorded policy was trained with.
No result is recorded.
"""

from easydict import EasyDict

pong_discrete_cql_config = EasyDict(
    exp_name="pong_discrete_cql_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 512],
            num_quantiles=200,
        ),
        discount_factor=0.99,
        learn=dict(
            train_epoch=30000,
            batch_size=32,
            learning_rate=0.00005,
            target_update_freq=2000,
            min_q_weight=10.0,
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./pong_dqn_ddp_seed0/expert_demos.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=4000)),
    ),
)
main_config = pong_discrete_cql_config

pong_discrete_cql_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="discrete_cql"),
)
create_config = pong_discrete_cql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
