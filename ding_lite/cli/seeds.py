"""Runs of several seeds, each in processes of its own, side by side or one after another, and a table at the end."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any

from tqdm import tqdm

from ding_lite.cli.running import rename_for_seed, split_words
from ding_lite.config import compile_config
from ding_lite.utils.checkpoint.run_directory import new_name, read_result
from ding_lite.utils.dist.interrupt import SIGNALS
from ding_lite.utils.dist.launch_environment import read_launch
from ding_lite.utils.registry import UserError

PERIOD = 0.5  # seconds between two looks at the runs
PR_SET_PDEATHSIG = 1  # option of prctl: the signal to receive when the parent process ends


@dataclass
class SeedRun:
    """A run of one seed.

    Attributes:
        directory: where it writes.
        process: its process, once it has been started.
        output: what it printed to the terminal.
    """

    seed: int
    directory: str
    output: IO[str]
    process: subprocess.Popen[str] | None = None
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> int | None:
        """Exit status, None before its end."""
        return self.process.poll() if self.process else None


def run_seeds(args: argparse.Namespace, seeds: Sequence[int]) -> int:
    """Train a config with several seeds; return the exit status: 0, or that of the first run that failed.

    A signal is passed on to the runs, which save a checkpoint and end; no other is started then.

    Args:
        args: the options of the command `train`.
        seeds: the seeds, each once.

    Raises:
        UserError: this process was started by a launcher, or the config cannot be read.
    """
    if read_launch() is not None:
        raise UserError("Several seeds start processes of their own: leave the launcher out, or give one seed.")
    _, overrides = split_words(args.words)
    name = compile_config(args.config, overrides=overrides).exp_name  # also finds mistakes before anything starts
    with tempfile.TemporaryDirectory(prefix="ding_lite_") as folder:
        runs = [
            SeedRun(seed, new_name(rename_for_seed(name, seed, always=True)), open(f"{folder}/{seed}", "w+"))  # noqa: SIM115
            for seed in seeds
        ]
        try:
            with _passing_signals_on(runs) as signalled:
                _run_all(runs, args, signalled)
        finally:
            for run in runs:
                run.output.close()
    print(table(runs))
    return next((run.status for run in runs if run.status), 0)


def _run_all(runs: Sequence[SeedRun], args: argparse.Namespace, signalled: Callable[[], bool]) -> None:
    """Start the runs, at most `args.jobs` at a time, and wait for their ends."""
    waiting, active = list(runs), list[SeedRun]()
    layout = "{n_fmt}/{total_fmt} runs, {elapsed} | {desc}"
    with tqdm(total=len(runs), bar_format=layout, dynamic_ncols=True, disable=not sys.stderr.isatty()) as bar:
        while waiting or active:
            while waiting and len(active) < args.jobs and not signalled():
                active.append(waiting.pop(0))
                active[-1].process = _start(active[-1], args)
            time.sleep(PERIOD)
            for run in [run for run in active if run.status is not None]:
                active.remove(run)
                run.result = read_result(run.directory)
                bar.write(_describe_end(run), file=sys.stderr)
                bar.update()
            bar.set_description_str("; ".join(map(_describe_state, active)))
            if signalled() and not active:
                return


def _start(run: SeedRun, args: argparse.Namespace) -> subprocess.Popen[str]:
    """Start the processes of a run."""
    words = ["train", "-c", args.config, "-s", str(run.seed), "--nproc", str(args.nproc)]
    words += ["--max-restarts", str(args.max_restarts), *(["--divide"] if args.divide else [])]
    words += ["-m", args.mode] if args.mode else []
    words += [*args.words, f"exp_name={run.directory}"]
    environment = dict(os.environ)
    if args.jobs > 1:  # or each would use all cores
        cores = len(os.sched_getaffinity(0)) // (args.jobs * args.nproc)
        environment.setdefault("OMP_NUM_THREADS", str(max(cores, 1)))
    return subprocess.Popen(
        [sys.executable, "-m", "ding_lite", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=run.output,
        stderr=run.output,
        text=True,
        start_new_session=True,  # so that Ctrl-C comes once, through this process
        preexec_fn=_end_with_parent,
    )


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _passing_signals_on(runs: Sequence[SeedRun]) -> Iterator[Callable[[], bool]]:
    """Return a context that sends a signal of this process to the runs; its value says whether there was one."""
    received: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        for run in runs:
            if run.process is not None and run.process.poll() is None:
                run.process.send_signal(signum)

    before = {number: signal.signal(number, handle) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _describe_state(run: SeedRun) -> str:
    """Return how far a run is: its env steps, and its newest evaluation."""
    steps, value = 0, ""
    path = Path(run.directory, "metrics.jsonl")
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line) if line.endswith("}") else {}
        steps = record.get("envstep", steps)
        value = f" eval {record['eval/return_mean']:.1f}" if record.get("eval/return_mean") is not None else value
    return f"seed {run.seed}: {tqdm.format_sizeof(steps)}{value}"


def _describe_end(run: SeedRun) -> str:
    """Return a line about a run that has ended, with its last words if it failed."""
    if not run.status:
        return f"seed {run.seed} ended: {run.result.get('stop_reason', 'no result')}, {run.directory}"
    run.output.seek(0)
    said = run.output.read().strip().splitlines() or [f"exit status {run.status}"]
    if "stop_reason" in run.result:  # interrupted, after a checkpoint
        return f"seed {run.seed} {run.result['stop_reason']}: continue with ding_lite resume {run.directory}"
    return f"seed {run.seed} failed: {said[-1]}"


def table(runs: Sequence[SeedRun]) -> str:
    """Return a table of the runs, with the mean of their best returns and its standard deviation."""
    lines = [f"{'seed':>6}  {'ended':<14}{'env steps':>11}{'best return':>13}{'seconds':>9}"]
    bests = []
    for run in runs:
        result = run.result
        ended = result.get("stop_reason") or ("failed" if run.process else "not started")
        best = result.get("eval_return_best")
        bests += [best] if best is not None else []
        row = [f"{run.seed:>6}  {ended:<14}", f"{result['envstep']:>11,}" if "envstep" in result else f"{'-':>11}"]
        row += [f"{best:>13.2f}" if best is not None else f"{'-':>13}"]
        lines.append("".join([*row, f"{result['seconds']:>9.0f}" if "seconds" in result else f"{'-':>9}"]))
    if len(bests) > 1:
        lines.append(
            f"best return {statistics.fmean(bests):.2f} +- {statistics.stdev(bests):.2f} over {len(bests)} runs"
        )
    lines.append("directories " + ", ".join(run.directory for run in runs if run.process))
    return "\n".join(lines)
