"""DQN on Atari Pong on any number of processes.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`. Batch size and n_sample are per
process.
"""

from easydict import EasyDict

pong_dqn_config = EasyDict(
    exp_name="pong_dqn_ddp_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        frame_stack=4,
        clip_rewards=True,
        episodic_life=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=8,
        stop_value=20,
    ),
    policy=dict(
        cuda=True,
        multi_gpu=True,
        bp_update_sync=False,
        priority=False,
        discount_factor=0.99,
        nstep=3,
        model=dict(
            obs_shape=[4, 84, 84],
            action_shape=6,
            encoder_hidden_size_list=[32, 64, 64, 512],
            dueling=False,
            head_layer_num=0,
        ),
        learn=dict(
            update_per_collect=10,
            batch_size=32,
            learning_rate=0.0001,
            target_update_freq=500,
        ),
        collect=dict(n_sample=96),
        eval=dict(evaluator=dict(eval_freq=4000)),
        random_collect_size=1000,
        other=dict(
            eps=dict(type="linear", start=1.0, end=0.05, decay=250000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
main_config = pong_dqn_config

pong_dqn_create_config = EasyDict(
    env=dict(
        type="atari",
        import_names=["dizoo.atari.envs.atari_env"],
    ),
    env_manager=dict(type="native"),
    policy=dict(type="dqn"),
)
create_config = pong_dqn_create_config

if __name__ == "__main__":
    from ding_lite.entry import serial_pipeline
    from ding_lite.utils import DDPContext

    with DDPContext():
        serial_pipeline((main_config, create_config), seed=0, max_env_step=int(3e6))
