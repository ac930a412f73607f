"""Behaviour cloning of recorded play of any Atari game, of Pong unless `env.env_id` names another one.

`collect_demo_data` records the data set, see docs/offline.md. The network is that of `atari_dqn_config.py`.
Not trained here.
"""

from easydict import EasyDict

atari_bc_config = EasyDict(
    exp_name="atari_bc_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        continuous=False,
        model=dict(encoder_hidden_size_list=[128, 128, 512]),
        learn=dict(
            train_epoch=30,
            batch_size=256,
            learning_rate=0.0001,
        ),
        collect=dict(
            data_type="hdf5",
            data_path="./atari_dqn_seed0/expert_demos.hdf5",
        ),
        eval=dict(evaluator=dict(eval_freq=4000)),  # learner iterations
    ),
)
main_config = atari_bc_config

atari_bc_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="bc"),
)
create_config = atari_bc_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
