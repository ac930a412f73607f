"""What every side of a comparison is given.

The driver and every peer's interpreter read this file, so it needs no package but torch, to limit its threads.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One training task; the same numbers go to every library.

    Attributes:
        collect_steps: Environment steps, of all environments together, between two rounds of updates.
        updates: Optimizer steps in a round.
        target_freq: Optimizer steps between two copies of the network into the target.
        learning_starts: Environment steps before the first update.
        warm_steps: Environment steps before the clock starts (learning is under way by then).
        parameters: Trainable parameters of the network, checked on every side.
    """

    env_id: str
    collect_steps: int
    updates: int
    batch_size: int
    learning_rate: float
    gamma: float
    nstep: int
    buffer_size: int
    target_freq: int
    learning_starts: int
    warm_steps: int
    parameters: int
    num_envs: int = 8
    epsilon: float = 0.1

    @property
    def ratio(self) -> float:
        """Optimizer steps per environment step."""
        return self.updates / self.collect_steps


TASKS = {
    "cartpole_dqn": Task(
        env_id="CartPole-v0",
        collect_steps=8,
        updates=5,
        batch_size=64,
        learning_rate=1e-3,
        gamma=0.97,
        nstep=1,
        buffer_size=20_000,
        target_freq=100,
        learning_starts=64,
        warm_steps=2000,
        parameters=25_538,  # 4-128-128-64-2
    ),
    "pong_dqn": Task(
        env_id="PongNoFrameskip-v4",
        collect_steps=96,
        updates=10,
        batch_size=32,
        learning_rate=1e-4,
        gamma=0.99,
        nstep=3,
        buffer_size=100_000,
        target_freq=500,
        learning_starts=1000,
        warm_steps=2000,
        parameters=1_687_206,  # three convolutions, 3136-512-6
    ),
}


def parse_side(description: str | None) -> argparse.Namespace:
    """The command line that all sides share. Sets the thread count before anybody imports torch."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--task", choices=sorted(TASKS), required=True)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the measured window")
    parser.add_argument("--steps", type=int, help="its length in environment steps instead, the same for all ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", default="-", help="file for the JSON line, - for standard output")
    parser.add_argument(
        "--option", action="append", default=[], help="something only this side understands; repeatable"
    )
    args = parser.parse_args()
    limit_threads(args.threads)
    return args


def limit_threads(threads: int) -> None:
    """Have every numeric library of this process, and of its children, use so many threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    import torch

    torch.set_num_threads(threads)
