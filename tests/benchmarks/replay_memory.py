"""Resident memory of 100,000 steps of Pong replay: ``python -m tests.benchmarks.replay_memory``.

The steps are really played and stored. Goal: at most 0.8 GB.
"""

from __future__ import annotations

import argparse

GOAL_GB = 0.8


def resident_gb() -> float:
    """Resident memory of this process now, in 10^9 bytes."""
    import os

    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e9


def main() -> None:
    """Fill a buffer one and a tenth times over, sample from it, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="capacity of the buffer")
    args = parser.parse_args()
    import torch

    from ding_lite.envs import create_vector_env, derive_seeds
    from ding_lite.worker import SampleCollector, UniformReplayBuffer
    from tests.benchmarks.ours import compile_task
    from tests.worker.games import Acting

    cfg = compile_task("pong_dqn")
    num_envs = cfg.env.collector_env_num
    env = create_vector_env(cfg.env, num_envs, seed=0, training=True)
    mode = Acting(lambda obs, **_: {"action": torch.randint(6, (num_envs,))})  # at random, for no more memory
    collector = SampleCollector(env, mode, 96, derive_seeds(0, n=num_envs))
    buffer = UniformReplayBuffer(args.steps, num_envs, nstep=3, gamma=0.99, frame_stack=4)
    collector.collect()
    before = resident_gb()
    while collector.envstep < 1.1 * args.steps:
        buffer.push(collector.collect()[0])
    for _ in range(100):
        buffer.sample(32)
    taken = resident_gb() - before
    each = 1e9 * taken / args.steps
    print(f"{buffer.count()} steps can be sampled; {taken:.2f} GB, {each:.0f} bytes a step (goal: {GOAL_GB} GB)")
    env.close()


if __name__ == "__main__":
    main()
