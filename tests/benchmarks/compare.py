"""Training rates against other libraries: ``python -m tests.benchmarks.compare``.

The sides take turns (ours, peer, ours, peer ...) on the same task with the same network, batch, updates per step and
threads; the ratio is taken within each pair, because a machine's speed drifts. README.md tells how to get the peers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.settings import TASKS
from tests.benchmarks.sides import PEERS, SideError, load_note, peer_python, run_side, spread

# Stable-Baselines3 has no double target, and always clips the gradient's norm at 10.
LIKE_SB3 = ("policy.double=False", "policy.learn.grad_clip_type=clip_norm", "policy.learn.grad_clip_value=10.0")


@dataclass(frozen=True)
class Comparison:
    """A task against a peer; ``goal`` is the ratio of environment steps a second that the project sets itself."""

    name: str
    task: str
    peer: str
    goal: float
    options: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1, 2)


COMPARISONS = (
    Comparison("cartpole-di_engine", "cartpole_dqn", "di_engine", 2.5, threads=(1,)),
    Comparison("cartpole-sb3", "cartpole_dqn", "sb3", 1.6, LIKE_SB3, threads=(1,)),
    Comparison("pong-di_engine", "pong_dqn", "di_engine", 1.8),
    Comparison("pong-sb3", "pong_dqn", "sb3", 1.3, LIKE_SB3),
    Comparison("pong-sb3-bf16", "pong_dqn", "sb3", 2.0, (*LIKE_SB3, "policy.precision=bf16")),
)


def run_pairs(comparison: Comparison, threads: int, args: argparse.Namespace) -> list[tuple[dict, dict]]:
    """Both sides in turn, ``args.pairs`` times."""
    common = ["--task", comparison.task, "--threads", str(threads), "--seconds", str(args.seconds)]
    options = [word for option in (*comparison.options, *args.option) for word in ("--option", option)]
    pairs = []
    for pair in range(args.pairs):
        seed = ["--seed", str(pair)]
        ours = run_side("ours", [*common, *seed, *options], args.seconds, threads=threads)
        peer = run_side(comparison.peer, [*common, *seed], args.seconds, threads=threads)
        for result in (ours, peer):
            check_alike(result)
        pairs.append((ours, peer))
    return pairs


def check_alike(result: dict[str, Any]) -> None:
    """Refuse a figure that is not of the task as it was set."""
    task = TASKS[result["task"]]
    if result["parameters"] != task.parameters:
        raise SideError(f"{result['side']}: a network of {result['parameters']} parameters, not {task.parameters}.")
    if abs(result["updates_per_step"] / task.ratio - 1) > 0.01:
        raise SideError(f"{result['side']}: {result['updates_per_step']:.4f} updates per step, not {task.ratio:.4f}.")


def summarise(comparison: Comparison, threads: int, pairs: list[tuple[dict, dict]]) -> str:
    """One line of the table."""
    ours, peer = zip(*pairs, strict=True)
    ratios = [a["env_steps_per_s"] / b["env_steps_per_s"] for a, b in pairs]
    rates = [statistics.median(result["env_steps_per_s"] for result in side) for side in (ours, peer)]
    updates = [statistics.median(result["updates_per_s"] for result in side) for side in (ours, peer)]
    verdict = "yes" if statistics.median(ratios) >= comparison.goal else "NO"
    return (
        f"| {comparison.name} | {threads} | {rates[0]:.0f} ({updates[0]:.0f}) | {rates[1]:.0f} ({updates[1]:.0f}) "
        f"| {spread(ratios)} | {comparison.goal} | {verdict} | {load_note([*ours, *peer])} |"
    )


def parse() -> argparse.Namespace:
    """The driver's command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument("--only", nargs="+", default=names, metavar="NAME", choices=names, help=", ".join(names))
    parser.add_argument(
        "--threads", nargs="+", type=int, help="torch threads of each side (default: 1 and, for Pong, 2)"
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured window of each run")
    parser.add_argument(
        "--option", action="append", default=[], help="config override of our side, key=value; repeatable"
    )
    parser.add_argument("--output", type=Path, help="file for all figures, JSON")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    args, record, lines = parse(), [], []
    for comparison in COMPARISONS:
        if comparison.name not in args.only:
            continue
        if peer_python(comparison.peer) is None:
            print(f"{comparison.name}: skipped, {PEERS[comparison.peer]} is not set (see tests/benchmarks/README.md).")
            continue
        for threads in args.threads or comparison.threads:
            try:
                pairs = run_pairs(comparison, threads, args)
            except SideError as error:
                print(f"{comparison.name}, {threads} threads: {error}")
                continue
            record += [{"comparison": comparison.name, "ours": ours, "peer": peer} for ours, peer in pairs]
            lines.append(summarise(comparison, threads, pairs))
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n")
    if not lines:
        raise SystemExit("nothing was compared.")
    print("\nEnvironment steps a second (updates a second), medians; ratio per pair: median (range);")
    print("cores that other processes kept busy, at worst.\n")
    print("| comparison | threads | ours | peer | ratio | goal | reached | others |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
