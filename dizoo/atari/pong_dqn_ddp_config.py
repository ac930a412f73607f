"""DQN on Atari Pong, for two processes.

Start it with `python -m torch.distributed.launch --nproc_per_node=2 THIS_FILE`. Batch size and n_sample are per
process: two of them learn from 32 samples after every four env steps. The published values are in
`config/serial/pong/pong_dqn_ddp_config.py`; docs/pong.md says what else was tried.
Result: 20.0 with seeds 0 and 1 after 205,000 env steps; docs/benchmarks.md has five seeds.
"""

from easydict import EasyDict

pong_dqn_config = EasyDict(
    exp_name="pong_dqn_ddp_seed0",
    env=dict(
        env_id="PongNoFrameskip-v4",
        episodic_reward=True,  # each point is learned separately: what follows does not depend on it
        max_episode_steps=6000,  # some rallies of a half-trained policy never end
        # more beginnings, because a trained policy loses most points there, and one whole game for late scoreboards
        collector_max_episode_steps=[500, 500, 500, 6000],
        collector_env_num=4,  # with 8 on each of two ranks, play improves later
        evaluator_env_num=4,  # rank 1 waits for evaluations, so they are short
        n_evaluator_episode=4,
        n_confirm_episode=4,
        stop_value=20.5,  # above 20, because eight games are few: a hundred more should keep 20
        expected_env_step=285_000,  # seed 1
    ),
    policy=dict(
        cuda=True,
        multi_gpu=True,
        precision="auto",
        discount_factor=0.99,
        nstep=5,
        double=False,
        priority=True,  # rewards are rare at first
        priority_IS_weight=True,
        model=dict(
            encoder=dict(type="conv", layer_norm=True),  # play improves three times as early
            encoder_hidden_size_list=[16, 32, 32, 256],
            dueling=False,
            head_layer_num=0,
        ),
        learn=dict(
            update_per_collect=8,
            batch_size=16,
            learning_rate=dict(  # small at the end: the policy settles
                type="piecewise",
                points=[[0, 2.5e-4], [150_000, 2.5e-4], [210_000, 5e-5], [300_000, 2e-5]],
                by="env_step",
            ),
            adam_eps=7e-4,  # late gradients are smaller, and so are the steps; it has the unit of importance weights
            target_update_freq=500,
        ),
        collect=dict(n_sample=16),
        eval=dict(
            average=1 / 1500,  # single iterations play worse than their average
            eps=0.001,
            # rank 1 waits for evaluations; the first that reached 20 came after 30,000 iterations
            evaluator=dict(eval_freq=5000, eval_after=25_000),
        ),
        random_collect_size=2500,
        other=dict(
            eps=dict(type="linear", start=1.0, end=0.02, decay=60000),
            replay_buffer=dict(
                replay_buffer_size=50000,
                anneal_step=int(1e7),  # the exponent of the weights stays at 0.4
            ),
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
        serial_pipeline((main_config, create_config), seed=0, max_env_step=600_000)
