"""Pong environments alone: our native vector environment against ale-py's bare engine, in turns, random actions.

``python -m tests.benchmarks.env_rate``. Goal: our share of the bare rate is at least 0.9.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.sides import spread

GOAL = 0.9


def make_bare(num_envs: int, threads: int) -> Any:
    """ale-py's engine with the settings that ours uses."""
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        "pong",
        num_envs,
        num_threads=threads,
        autoreset_mode=AutoresetMode.SAME_STEP,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=False,
        repeat_action_probability=0.0,
    )


def make_ours(num_envs: int, threads: int) -> Any:
    """What the collector of the main job steps."""
    from ding_lite.envs import create_vector_env
    from tests.benchmarks.ours import compile_task

    cfg = compile_task("pong_dqn", [f"env.manager.num_threads={threads}"])
    return create_vector_env(cfg.env, num_envs, seed=0, training=True)


def make_stepper(env: Any, num_envs: int) -> Callable[[float], float]:
    """A function that steps for some seconds and returns environment steps a second."""
    actions = np.random.default_rng(0).integers(0, 6, (997, num_envs))
    env.reset(seed=0)

    def step(seconds: float) -> float:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                env.step(actions[count % 997])
                count += 1
        return count * num_envs / (time.perf_counter() - start)

    return step


def main() -> None:
    """Print both rates and the share per pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="threads of the engine")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    print("| engine threads | ours, steps/s | ale-py, steps/s | share | goal |\n|---|---|---|---|---|")
    for threads in args.threads:
        ours, bare = (make_stepper(make(args.envs, threads), args.envs) for make in (make_ours, make_bare))
        ours(0.5), bare(0.5)
        rates = [(ours(args.seconds), bare(args.seconds)) for _ in range(args.pairs)]
        medians = [statistics.median(side) for side in zip(*rates, strict=True)]
        share = spread([a / b for a, b in rates])
        print(f"| {threads} | {medians[0]:.0f} | {medians[1]:.0f} | {share} | {GOAL} |", flush=True)


if __name__ == "__main__":
    main()
