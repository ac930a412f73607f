"""Training rates against other libraries: ``python -m tests.benchmarks.compare``.

The sides take turns (ours, peer, ours, peer ...) on the same task with the same network, batch, updates per step and
threads; the ratio is taken within each pair, because a machine's speed drifts. README.md tells how to get the peers.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.settings import TASKS
from tests.benchmarks.sides import PEERS, SideError, load_note, peer_python, run_side, spread

# Stable-Baselines3 has no double target, and always clips the gradient's norm at 10.
LIKE_SB3 = ("policy.double=False", "policy.learn.grad_clip_type=clip_norm", "policy.learn.grad_clip_value=10.0")
RUN_SECONDS = 1800.0  # what a run of a fixed number of environment steps may take
BF16, COMPILED = "policy.precision=bf16", "policy.compile=True"


@dataclass(frozen=True)
class Comparison:
    """A task against a peer.

    Attributes:
        goal: The ratio that the project sets itself; None: it sets none.
        variant: What is special about our side.
        options: Config overrides of our side.
        rate: What the ratio is of. Updates, where the peer throws environment steps away.
        ranks: Processes of our side; 0: one, without a launcher.
        against: Task of the peer; empty: the same one. The peer `ours` is this library in one process.
    """

    task: str
    peer: str
    goal: float | None
    variant: str = ""
    options: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1, 2)
    rate: str = "env_steps_per_s"
    ranks: int = 0
    against: str = ""

    @property
    def name(self) -> str:
        """Name for the command line and the table."""
        return "-".join(filter(None, (self.task, self.peer, self.variant)))


COMPARISONS = (
    Comparison("cartpole_dqn", "di_engine", 2.5, threads=(1,)),
    Comparison("cartpole_dqn", "sb3", 1.6, options=LIKE_SB3, threads=(1,)),
    Comparison("cartpole_dqn", "di_engine", 2.5, "compiled", (COMPILED,), threads=(1,)),
    Comparison("cartpole_dqn", "sb3", 1.6, "compiled", (*LIKE_SB3, COMPILED), threads=(1,)),
    Comparison("cartpole_ppo", "di_engine", 2.0, threads=(1,), rate="updates_per_s"),
    Comparison("cartpole_ppo", "sb3", 1.8, threads=(1,)),
    Comparison("cartpole_ppo", "sb3", 1.8, "compiled", (COMPILED,), threads=(1,)),
    Comparison("cartpole_qrdqn", "sb3", 1.5, options=LIKE_SB3, threads=(1,)),
    Comparison("pendulum_sac", "di_engine", 1.5, threads=(1,)),
    *(
        Comparison(task, "sb3", goal, variant, options, threads=(1,))
        for task in ("pendulum_sac", "pendulum_td3", "halfcheetah_sac", "halfcheetah_td3", "halfcheetah_ppo")
        for variant, options, goal in (
            ("", (), 1.4),
            ("compiled", (COMPILED,), 1.4),
            ("bf16", (BF16,), 2.0),
            ("bf16-compiled", (BF16, COMPILED), 2.0),
        )
    ),
    Comparison("pong_dqn", "di_engine", 1.8),
    Comparison("pong_dqn", "di_engine", 1.8, "compiled", (COMPILED,), threads=(1,)),
    Comparison("pong_dqn", "sb3", 1.3, options=LIKE_SB3),
    Comparison("pong_dqn", "sb3", 2.0, "bf16", (*LIKE_SB3, BF16)),
    Comparison("pong_dqn", "sb3", 2.0, "bf16-compiled", (*LIKE_SB3, BF16, COMPILED), threads=(1,)),
    Comparison("pong_ppo", "di_engine", None, rate="updates_per_s"),
    Comparison("pong_ppo", "sb3", 2.0),
    Comparison("pong_ppo", "sb3", 2.0, "bf16", (BF16,)),
    *(Comparison(f"sheeprl_{kind}", "sb3", 2.5, threads=(1,)) for kind in ("ppo", "a2c", "sac")),
    *(
        Comparison(f"sheeprl_{kind}_two", "ours", 1.8, threads=(1,), ranks=2, against=f"sheeprl_{kind}")
        for kind in ("ppo", "a2c", "sac")
    ),
)


def run_pairs(
    comparison: Comparison, threads: int, args: argparse.Namespace
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Both sides in turn, ``args.pairs`` times."""
    seconds, own, other = args.seconds, comparison.task, comparison.against or comparison.task
    common = ["--threads", str(threads), "--seconds", str(seconds), "--device", args.device]
    if TASKS[own].run_steps is not None:
        common += ["--steps", str(TASKS[own].run_steps)]
        seconds = RUN_SECONDS
    options = [word for option in (*comparison.options, *args.option) for word in ("--option", option)]
    theirs = options if comparison.peer == "ours" else []
    pairs = []
    for pair in range(args.pairs):
        seed = ["--seed", str(pair)]
        ours = run_side("ours", ["--task", own, *common, *seed, *options], seconds, comparison.ranks, threads)
        peer = run_side(comparison.peer, ["--task", other, *common, *seed, *theirs], seconds, threads=threads)
        for result in (ours, peer):
            check_alike(result, comparison.rate)
        pairs.append((ours, peer))
    return pairs


def check_alike(result: dict[str, Any], rate: str) -> None:
    """Refuse a figure that is not of the task as it was set."""
    task = TASKS[result["task"]]
    if result["parameters"] != task.parameters:
        raise SideError(f"{result['side']}: a network of {result['parameters']} parameters, not {task.parameters}.")
    if result["updates_per_round"] != task.updates:
        raise SideError(f"{result['side']}: {result['updates_per_round']:.2f} updates in a round, not {task.updates}.")
    ratio = task.ratio / result.get("ranks", 1)
    if rate == "env_steps_per_s" and abs(result["updates_per_step"] / ratio - 1) > 0.01:
        raise SideError(f"{result['side']}: {result['updates_per_step']:.4f} updates per step, not {ratio:.4f}.")


def summarise(comparison: Comparison, threads: int, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """One line of the table."""
    ours, peer = zip(*pairs, strict=True)
    ratios = [a[comparison.rate] / b[comparison.rate] for a, b in pairs]
    what, goal, verdict = comparison.rate.removesuffix("_per_s").replace("_", " "), comparison.goal, "-"
    if goal:
        verdict = "yes" if statistics.median(ratios) >= goal else "NO"
    return (
        f"| {comparison.name} | {threads} | {medians(ours)} | {medians(peer)} "
        f"| {what} | {spread(ratios)} | {goal or '-'} | {verdict} | {load_note([*ours, *peer])} |"
    )


def medians(side: Sequence[dict[str, Any]]) -> str:
    """Environment steps and updates a second of one side, and the seconds of a whole run."""
    steps, updates, seconds = (
        statistics.median(result[figure] for result in side)
        for figure in ("env_steps_per_s", "updates_per_s", "window_s")
    )
    whole = f", {seconds:.1f} s" if TASKS[side[0]["task"]].run_steps is not None else ""
    return f"{steps:.0f} ({updates:.4g}){whole}"


def parse() -> argparse.Namespace:
    """The driver's command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="NAME", help=f"what begins so, of {', '.join(names)} (default: all)"
    )
    parser.add_argument(
        "--threads", nargs="+", type=int, help="torch threads of each side (default: 1 and, for Pong, 2)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the networks of each side")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="measured window of each run")
    parser.add_argument(
        "--option", action="append", default=[], help="config override of our side, key=value; repeatable"
    )
    parser.add_argument("--output", type=Path, help="file for all figures, JSON")
    args = parser.parse_args()
    for wanted in args.only:
        if not any(name.startswith(wanted) for name in names):
            parser.error(f"--only: nothing begins with '{wanted}'; there are {', '.join(names)}.")
    return args


def main() -> None:
    """Print the table."""
    args, record, lines = parse(), [], []
    for comparison in COMPARISONS:
        if not comparison.name.startswith(tuple(args.only)):
            continue
        if comparison.peer in PEERS and peer_python(comparison.peer) is None:
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
    print("\nEnvironment steps a second (updates a second), medians; ratio per pair: median (range),")
    print("cores that other processes kept busy, at worst.\n")
    print("| comparison | threads | ours | peer | of | ratio | goal | reached | others |\n" + 9 * "|---" + "|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
