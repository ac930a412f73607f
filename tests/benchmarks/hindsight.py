"""What goals in hindsight cost: ``python -m tests.benchmarks.hindsight``.

Steps of FetchReach-v4, played at random, are stored and drawn by `her` and by uniform replay. Goals: a batch takes at
most 1.2 times as much CPU time, and a step at most 1.2 times as much memory.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

GOAL = 1.2
BATCH, DRAWS, ROUNDS, UPDATES = 256, 20, 15, 50
PLAYED = 2000  # env steps, stored again and again


def bytes_of(tree: Any) -> int:
    """Return the size of all arrays and tensors in a tree of dicts and objects."""
    if hasattr(tree, "nbytes"):
        return int(tree.nbytes)
    parts = tree.values() if isinstance(tree, dict) else vars(tree).values() if hasattr(tree, "__dict__") else ()
    return sum(map(bytes_of, parts))


def seconds_of(buffer: Any, updates: int) -> float:
    """Return the CPU seconds that one batch takes, if as many are drawn at once as a collect has updates."""
    begin = time.process_time()
    for _ in range(DRAWS):
        for _ in buffer.batches(BATCH, updates):
            pass
    return (time.process_time() - begin) / DRAWS / updates


def main() -> None:
    """Store the same steps in both buffers, draw from them in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="capacity of the buffers")
    args = parser.parse_args()
    import statistics

    import torch

    from ding_lite.run.setup import prepare_run
    from dizoo.robotics.config.fetchreach_her_sac_config import create_config, main_config

    torch.set_num_threads(1)
    buffers, play = dict[str, Any](), dict[str, Any]()
    for kind in ("uniform", "her"):
        words = [f"policy.other.replay_buffer.{key}" for key in (f"type={kind}", f"replay_buffer_size={args.steps}")]
        setup = prepare_run((main_config, create_config), seed=0, overrides=words)
        policy = setup.create_policy()
        buffers[kind] = setup.create_replay_buffer(policy)
        play = play or collect(setup)
    for buffer in buffers.values():
        for _ in range(args.steps // PLAYED):
            buffer.push(play)
    rows = [
        [seconds_of(buffer, updates) for buffer in buffers.values()] for updates in (1, UPDATES) for _ in range(ROUNDS)
    ]
    for updates, part in ((1, rows[:ROUNDS]), (UPDATES, rows[ROUNDS:])):
        plain, hindsight = (1e6 * statistics.median(column) for column in zip(*part, strict=True))
        ratio = statistics.median(own / other for other, own in part)
        drawn = f"{updates} batches of {BATCH} at once"
        print(f"{drawn}: {plain:.0f} us each, in hindsight {hindsight:.0f} us; {ratio:.2f} times (goal: {GOAL})")
    plain, hindsight = (
        (bytes_of(buffer.ring) + bytes_of(buffer.sampler)) / buffer.ring.num_places for buffer in buffers.values()
    )
    print(f"{plain:.0f} bytes a step, in hindsight {hindsight:.0f}; {hindsight / plain:.2f} times (goal: {GOAL})")


def collect(setup: Any) -> dict[str, Any]:
    """Return a rollout block of random play."""
    from contextlib import ExitStack

    import torch

    from ding_lite.worker import SampleCollector
    from tests.worker.games import Acting

    with ExitStack() as stack:
        env = setup.create_collect_env(stack)
        space = setup.spec.action_space
        player = Acting(lambda obs, **_: {"action": torch.rand(env.num_envs, *space.shape) * 2 - 1})
        return SampleCollector(env, player, PLAYED, list(range(env.num_envs))).collect()[0]


if __name__ == "__main__":
    main()
