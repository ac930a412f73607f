"""DQN with ST-DIM on Atari Pong. Values of DI-engine, not trained here."""

from easydict import EasyDict

pong_dqn_stdim_config = EasyDict(
    exp_name="pong_dqn_stdim_seed0",
    env=dict(
        stop_value=20,
        env_id="PongNoFrameskip-v4",
    ),
    policy=dict(
        cuda=True,
        model=dict(
            encoder_hidden_size_list=[128, 128, 512],
        ),
        aux_loss_weight=0.003,
        nstep=3,
        learn=dict(
            update_per_collect=10,
            batch_size=128,
            learning_rate=0.0001,
            target_update_freq=500,
        ),
        collect=dict(n_sample=96),
        eval=dict(evaluator=dict(eval_freq=4000)),
        other=dict(
            eps=dict(start=1.0, end=0.05, decay=250000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = pong_dqn_stdim_config

pong_dqn_stdim_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="subprocess"),
    policy=dict(type="dqn_stdim"),
)
create_config = pong_dqn_stdim_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline

    serial_pipeline((main_config, create_config), seed=0)
