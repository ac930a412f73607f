"""Two ranks of one thread against one rank of one thread, in turns: ``python -m tests.benchmarks.scaling``.

The real pipeline, learning included. ``share``: the task's batch and collect are divided among the ranks, so that both
runs take the same learning steps per environment step; ``each``: every rank has the task's own batch and collect, as in
the main job, so that the global batch grows. Goal: 1.7 x the environment steps a second. Every rank needs a free core.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from tests.benchmarks.settings import TASKS
from tests.benchmarks.sides import load_note, run_side, spread

GOAL = 1.7


def run_ranks(ranks: int, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    """One run of the pipeline. One thread for torch and one for the environments' engine on each rank."""
    options = ["env.manager.num_threads=1"] if TASKS[args.task].pong else []
    options += args.option + (["split"] if mode == "share" else [])
    words = ["--task", args.task, "--threads", "1", "--steps", str(args.steps * ranks)]
    words += [word for option in options for word in ("--option", option)]
    return run_side("ours", words, seconds=180, ranks=ranks)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=sorted(TASKS), default="pong_dqn")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--modes", nargs="+", choices=["each", "share"], default=["each", "share"])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5000, help="measured environment steps of each rank")
    parser.add_argument("--option", action="append", default=[], help="config override, key=value; repeatable")
    args = parser.parse_args()
    print("| batch | one rank, steps/s | ranks | all, steps/s | ratio | goal | others |\n|---|---|---|---|---|---|---|")
    for mode in args.modes:
        pairs = [(run_ranks(1, "each", args), run_ranks(args.ranks, mode, args)) for _ in range(args.pairs)]
        rates = [[result["env_steps_per_s"] for result in pair] for pair in pairs]
        one, many = (statistics.median(side) for side in zip(*rates, strict=True))
        ratio = spread([b / a for a, b in rates])
        note = load_note([pair[0] for pair in pairs])  # a launched rank cannot tell the other ranks from strangers
        print(f"| {mode} | {one:.0f} | {args.ranks} | {many:.0f} | {ratio} | {GOAL} | {note} |", flush=True)


if __name__ == "__main__":
    main()
