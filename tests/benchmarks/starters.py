"""Does what `ding_lite new ENV ALGORITHM` writes learn, and stay there: ``python -m tests.benchmarks.starters``.

Each run trains one starter config as written, but for its stop value, with one thread in a process of its own. It ends
at twice the env steps at which an evaluation first reached the goal, or at a limit. A run's evaluations are appended to
its file as they happen, so a stopped benchmark loses nothing: the next one shows them, skips the runs that ended, and
begins the others anew.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ding_lite.cli.starter import write_starter
from ding_lite.config import read_config
from ding_lite.entry import Callback
from ding_lite.run.pipelines import find_pipeline
from ding_lite.utils import POLICY_REGISTRY, ConfigError

GOALS = {  # mean return, and the env steps within which it should be reached
    "CartPole-v1": (475, 200_000),
    "Acrobot-v1": (-100, 200_000),
    "Pendulum-v1": (-200, 300_000),
    "LunarLander-v3": (200, 500_000),
    "LunarLanderContinuous-v3": (200, 500_000),
}
SLOW = ("d4pg", "td3", "ddpg", "sac", "discrete_sac", "sqn", "r2d2", "fqf", "iqn", "acer")  # the slowest at the end


class Start(NamedTuple):
    """One run."""

    env_id: str
    algorithm: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run's files."""
        return f"{self.env_id}_{self.algorithm}_{self.seed}"


class Watch(Callback):
    """Appends each evaluation to a file, and ends the run at twice the env steps that the goal took."""

    def __init__(self, path: Path, goal: float) -> None:
        self._path, self._goal, self._reached, self._began = path, goal, 0, time.perf_counter()

    def after_evaluation(self, run: Any, info: Mapping[str, Any]) -> None:
        """Record an evaluation."""
        step, value = run.counts()["envstep"], info["return_mean"]
        if not self._reached and value >= self._goal:
            self._reached = step
        if self._reached and step >= 2 * self._reached:
            run.stop()
        self._write(step=step, value=value, seconds=time.perf_counter() - self._began)

    def on_end(self, run: Any) -> None:
        """Record that the run has ended."""
        self._write(ended=run.stop_reason)

    def _write(self, **record: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def train(start: Start, folder: Path) -> None:
    """Train a starter config in this process."""
    goal, limit = GOALS[start.env_id]
    path = folder / f"{start.name}.jsonl"
    path.unlink(missing_ok=True)
    main, create = read_config(_config(start, folder))
    main["exp_name"], main["env"]["stop_value"] = str(folder / start.name), None
    callbacks = [Watch(path, goal)]
    find_pipeline(POLICY_REGISTRY.find(create["policy"]["type"]))(
        (main, create), seed=start.seed, max_env_step=2 * limit, callbacks=callbacks
    )


def summary(start: Start, folder: Path) -> dict[str, Any] | None:
    """Return what a run's file says; None if there is none.

    Returns:
        `goal_step`, None if the goal was not reached; `last` and `after`, the last evaluation and the mean of those
        after the goal; `best`; `step`; `seconds`; `ended`, empty if it was stopped.
    """
    path = folder / f"{start.name}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    evaluations = [line for line in lines if "step" in line]
    if not evaluations:
        return None
    goal, limit = GOALS[start.env_id]
    values = [line["value"] for line in evaluations]
    first = next((i for i, line in enumerate(evaluations) if line["value"] >= goal and line["step"] <= limit), None)
    after = values[first:] if first is not None else []
    return {
        "goal_step": None if first is None else evaluations[first]["step"],
        "last": values[-1],
        "after": sum(after) / len(after) if after else None,
        "best": max(values),
        "step": evaluations[-1]["step"],
        "seconds": evaluations[-1]["seconds"],
        "ended": lines[-1].get("ended", ""),
    }


def fitting(patterns: list[str]) -> Iterator[tuple[str, str]]:
    """Yield environments and algorithms whose `ENV/ALGORITHM` matches a pattern, the cheapest first."""
    names = [name for name, cls in POLICY_REGISTRY.items() if cls.config.get("type") == name]
    names = [name for name in names if POLICY_REGISTRY[name].learns_from != "dataset"]
    names.sort(key=lambda name: (-1 if name not in SLOW else len(SLOW) - SLOW.index(name), name))
    for env_id in GOALS:
        for name in names:
            if any(fnmatch.fnmatch(f"{env_id}/{name}", pattern) for pattern in patterns):
                yield env_id, name


def _config(start: Start, folder: Path) -> Path:
    return folder / f"{start.env_id}_{start.algorithm}_config.py"


def prepare(args: argparse.Namespace) -> list[Start]:
    """Write the starter configs, and return the runs of those that exist; pairs that do not fit are left out."""
    starts = []
    for env_id, algorithm in fitting(args.only):
        runs = [Start(env_id, algorithm, seed) for seed in args.seeds]
        path = _config(runs[0], args.folder)
        try:
            if not path.exists():
                write_starter(env_id, algorithm, str(path))
        except ConfigError as error:
            if not any(reason in str(error) for reason in ("actions, got", "hardly learns")):
                print(f"{env_id} {algorithm}: {error}", file=sys.stderr)
            continue
        starts += runs
    return starts


def run_all(starts: list[Start], args: argparse.Namespace) -> None:
    """Run what has not ended yet, at most `args.jobs` at a time, for at most `args.seconds` in all."""
    waiting = [start for start in starts if not (summary(start, args.folder) or {}).get("ended")]
    running: dict[Start, subprocess.Popen[bytes]] = {}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    until = time.monotonic() + args.seconds
    while (waiting or running) and time.monotonic() < until:
        while waiting and len(running) < args.jobs:
            start = waiting.pop(0)
            words = [sys.executable, "-m", "tests.benchmarks.starters", "--folder", str(args.folder)]
            words += ["--one", start.env_id, start.algorithm, str(start.seed)]
            with (args.folder / f"{start.name}.log").open("wb") as log:
                running[start] = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
        time.sleep(0.2)
        for start in [start for start, process in running.items() if process.poll() is not None]:
            if running.pop(start).returncode:
                print(f"{start.name} failed, see {args.folder / start.name}.log", file=sys.stderr)
            write_table(starts, args.folder)
    for process in running.values():
        process.kill()
        process.wait()


def write_table(starts: list[Start], folder: Path) -> str:
    """Write and return the table of all runs: a row for each pair, its seeds separated by commas."""
    head = ("environment", "algorithm", "goal", "thousand env steps to it", "at the end", "mean after it", "seconds")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    results = {start: told for start in starts if (told := summary(start, folder))}
    for env_id, algorithm in dict.fromkeys((start.env_id, start.algorithm) for start in results):
        rows = [told for start, told in results.items() if (start.env_id, start.algorithm) == (env_id, algorithm)]
        steps = [row["goal_step"] / 1000 if row["goal_step"] else None for row in rows]
        columns = [steps, *([row[key] for row in rows] for key in ("last", "after", "seconds"))]
        texts = [", ".join("-" if value is None else f"{value:.0f}" for value in column) for column in columns]
        open_ends = [f"{row['step'] / 1000:.0f}" for row in rows if not row["goal_step"] or not row["ended"]]
        texts[0] += f" (missed or cut off at {', '.join(open_ends)})" if open_ends else ""
        lines.append(f"| {env_id} | {algorithm} | {GOALS[env_id][0]} | {' | '.join(texts)} |")
    text = "\n".join(lines)
    (folder / "table.md").write_text(text + "\n")
    (folder / "results.json").write_text(json.dumps({start.name: told for start, told in results.items()}, indent=1))
    return text


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="of ENV/ALGORITHM, such as */dqn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all runs together")
    parser.add_argument("--folder", type=Path, default=Path("starters"), help="where everything is kept")
    parser.add_argument("--one", nargs=3, metavar=("ENV", "ALGORITHM", "SEED"), help="train this run in this process")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.one:
        env_id, algorithm, seed = args.one
        train(Start(env_id, algorithm, int(seed)), args.folder)
        return
    starts = prepare(args)
    run_all(starts, args)
    print(write_table(starts, args.folder))


if __name__ == "__main__":
    main()
