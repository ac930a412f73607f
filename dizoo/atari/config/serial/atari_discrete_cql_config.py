"""Conservative Q-learning from recorded play of any Atari game, of Pong unless `env.env_id` names another one.

`collect_demo_data` records the data set, see docs/offline.md.
Values of DI-engine for Qbert, not trained here.
"""

from easydict import EasyDict

atari_discrete_cql_config = EasyDict(
    exp_name="atari_discrete_cql_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
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
            learning_rate=0.0001,
            target_update_freq=2000,  # learner iterations
            min_q_weight=10.0,
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./atari_dqn_seed0/expert_demos.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=4000)),  # learner iterations
    ),
)
main_config = atari_discrete_cql_config

atari_discrete_cql_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="discrete_cql"),
)
create_config = atari_discrete_cql_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
