"""Several runs as one process trains them together, beside the same runs one after another, in turns.

    python -m tests.benchmarks.together [--kinds ppo dqn pqn] [--runs 8] [--rounds 3] [--collects 20]

CartPole, one thread, no evaluations. A round is a process for each side, which trains K runs of one length and of twice
that length: the difference is the processor time of their collects and learning steps without what comes once, such as
imports, building the runs, and recording the joint programs. The table has the medians of the rounds, per collect and
run; the last column has the seconds that come once. `--seeds` measures instead from the command to the report how long
five seeds of PPO need to reach a mean return of 475, on all cores, with `--together` and with `--jobs 2`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from tests.distributed.launcher import ROOT

CONFIGS = ROOT / "dizoo" / "classic_control" / "cartpole" / "config"
# The pipeline, and env steps of a collect.
KINDS = {"ppo": (serial_pipeline_onpolicy, 256), "dqn": (serial_pipeline, 8), "pqn": (serial_pipeline_onpolicy, 512)}
QUIET = ("env.stop_value=None", "policy.eval.evaluator.eval_freq=1000000000", "env.n_evaluator_episode=1")


def train(kind: str, seed: int, collects: int, folder: str, **given: Any) -> Any:
    """Train one run."""
    pipeline, steps = KINDS[kind]
    words = [*QUIET, f"exp_name={folder}/{kind}{seed}_{collects}"]
    path = str(CONFIGS / f"cartpole_{kind}_config.py")
    return pipeline(path, seed=seed, max_env_step=collects * steps, overrides=words, **given)


def measure(kind: str, runs: int, collects: int, together: bool, folder: str) -> float:
    """Return the processor seconds of some runs."""
    start = time.process_time()
    if together:
        from ding_lite.together.runs import train_together

        states = train_together({str(n): partial(train, kind, n, collects, folder) for n in range(runs)})
        assert all(state.error is None for state in states)
    else:
        for n in range(runs):
            train(kind, n, collects, folder)
    return time.process_time() - start


def measure_here(kind: str, runs: int, collects: int, together: bool) -> None:
    """Print the seconds of short and of long runs, in a process that has done neither."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        short = measure(kind, runs, collects, together, f"{folder}/short")
        long = measure(kind, runs, 2 * collects, together, f"{folder}/long")
    print(json.dumps([short, long]))


def compare(kind: str, runs: int, collects: int, rounds: int) -> str:
    """Return a row of the table."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(rounds):
        for together in found:
            words = ["--here", kind, str(runs), str(collects), str(int(together))]
            command = [sys.executable, "-m", "tests.benchmarks.together", *words]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            short, long = json.loads(done.stdout.splitlines()[-1])
            found[together].append(((long - short) / collects / runs, max(2 * short - long, 0.0)))
    medians = {side: [statistics.median(each) for each in zip(*found[side], strict=True)] for side in found}
    (joint, once), (alone, once_alone) = medians[True], medians[False]
    return f"| {kind} | {alone * 1000:.1f} | {joint * 1000:.1f} | {joint / alone:.2f} | {once_alone:.1f}, {once:.1f} |"


def time_seeds(options: Sequence[str]) -> float:
    """Return the seconds from the command that trains five seeds to the report with curves."""
    program = [sys.executable, "-m", "ding_lite"]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        config, seeds = str(CONFIGS / "cartpole_ppo_config.py"), ["-s", "0", "1", "2", "3", "4"]
        subprocess.run([*program, "train", "-c", config, *seeds, *options], cwd=folder, check=True, capture_output=True)
        runs = sorted(path.name for path in Path(folder).iterdir())
        subprocess.run([*program, "report", *runs, "-o", "report.html"], cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--collects", type=int, default=20, help="of PPO; DQN has 8 times, PQN 4 times as many")
    parser.add_argument("--seeds", action="store_true")
    parser.add_argument("--here", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        kind, runs, collects, together = args.here
        measure_here(kind, int(runs), int(collects), together == "1")
        return
    if args.seeds:
        for options in (["--together"], ["--jobs", "2"]):
            print(f"{' '.join(options)}: {time_seeds(options):.1f} s", flush=True)
        return
    print("| | alone, ms | together, ms | ratio | once, s |\n|---|---|---|---|---|")
    scale = {"ppo": 1, "dqn": 8, "pqn": 4}
    for kind in args.kinds:
        print(compare(kind, args.runs, args.collects * scale[kind], args.rounds), flush=True)


if __name__ == "__main__":
    main()
