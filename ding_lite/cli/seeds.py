"""Several runs, each in its own processes, side by side or one after another, and a table at the end.

They are new runs of several seeds, or runs that continue in their directories.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ding_lite.cli.running import find_begun, find_end, read_resumable, rename_for_seed, resumed_words, split_words
from ding_lite.config import compile_config
from ding_lite.results.run import RETURN, Evaluations
from ding_lite.results.table import Table
from ding_lite.utils.checkpoint.run_directory import has_checkpoint, new_name, read_result
from ding_lite.utils.ranks.launch_environment import read_launch
from ding_lite.utils.registry import UserError
from ding_lite.utils.run_process import RunProcess, passing_signals_on
from ding_lite.utils.submission import SubmittedRun, open_cluster, process_words, start_run

PERIOD = 0.5  # seconds between two checks of the runs
WIDTH = 80  # characters of a line of the table


@dataclass
class SeedRun:
    """A run of one seed."""

    seed: int
    directory: str  # the run's directory
    process: RunProcess | SubmittedRun | None = None  # None before the run is started
    result: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False  # whether a signal ended it before it wrote a result
    words: Sequence[str] = ()  # words of its command line; none for a run that is over

    @cached_property
    def evaluations(self) -> Evaluations:
        """What the run has recorded."""
        return Evaluations(Path(self.directory))

    @property
    def status(self) -> int | None:
        return self.process.status if self.process else None


def run_seeds(args: argparse.Namespace) -> int:
    """Train a config with several seeds, or go on with what this command began; return the exit status."""
    if read_launch() is not None:
        raise UserError("Several seeds start processes of their own: leave the launcher out, or give one seed.")
    _, overrides = split_words(args.words)
    cfg = compile_config(args.config, overrides=overrides)  # also finds mistakes before anything starts
    seeds = args.seeds or [cfg.seed]
    names = [rename_for_seed(cfg.exp_name, seed, always=len(seeds) > 1) for seed in seeds]
    return _run([_seed_run(seed, name, args) for seed, name in zip(seeds, names, strict=True)], args)


def _seed_run(seed: int, name: str, args: argparse.Namespace) -> SeedRun:
    """Return the run of one seed: a new one or, with `--resume`, the newest one of this name, if it can go on."""
    if args.goes_on and (begun := find_begun(name)):
        return _continued(seed, begun, resumed_words(args.words), args)
    words = ["train", "-c", args.config, "-s", str(seed), *process_words(args)]
    words += ["--divide"] * args.divide + (["-m", args.mode] if args.mode else [])
    directory = new_name(name)
    return SeedRun(seed, directory, words=[*words, *args.words, f"exp_name={directory}"])


def resume_runs(args: argparse.Namespace) -> int:
    """Continue the runs in several directories; return the exit status."""
    if read_launch() is not None:
        raise UserError("Several runs start processes of their own: leave the launcher out, or give one directory.")
    split_words(args.words)  # finds mistakes before anything starts
    seeds = [read_resumable(directory).main_config["seed"] for directory in args.directories]
    pairs = zip(seeds, args.directories, strict=True)
    return _run([_continued(seed, directory, args.words, args) for seed, directory in pairs], args)


def _continued(seed: int, directory: str, words: Sequence[str], args: argparse.Namespace) -> SeedRun:
    """Return a run that continues in its directory, or one that is over and that the words do not prolong."""
    if end := find_end(directory, words):
        print(end, file=sys.stderr)
        return SeedRun(seed, directory, result=read_result(directory))
    return SeedRun(seed, directory, words=["resume", directory, *process_words(args), *words])


def _run(runs: Sequence[SeedRun], args: argparse.Namespace) -> int:
    """Carry out runs and print their table; return the exit status: 0, or that of the first run that failed.

    A signal is passed on to the runs, which save a checkpoint and end; no further run is started.
    """
    executor = open_cluster(args, Path(runs[0].directory).parent)
    args.jobs = args.jobs or (len(runs) if executor else 1)
    try:
        with passing_signals_on(lambda: [run.process for run in runs if run.process]) as signalled:
            _run_all(runs, args, executor, signalled)
    finally:
        for process in (run.process for run in runs if run.process):
            process.close()
    print(table(runs))
    status = next((run.status for run in runs if run.status), 0)
    return 128 - status if status < 0 else status  # a shell reports signal n as status 128 + n


def _run_all(runs: Sequence[SeedRun], args: argparse.Namespace, executor: Any, signalled: Callable[[], int]) -> None:
    """Start the runs, at most `args.jobs` at a time, and wait for them to end."""
    waiting, active = [run for run in runs if run.words], list[SeedRun]()
    layout = "{n_fmt}/{total_fmt} runs, {elapsed} | {desc}"
    with tqdm(total=len(waiting), bar_format=layout, dynamic_ncols=True, disable=not sys.stderr.isatty()) as bar:
        while waiting or active:
            while waiting and len(active) < args.jobs and not signalled():
                run = waiting.pop(0)
                run.process = start_run(args, executor, run.words, run.directory)
                active.append(run)
            time.sleep(PERIOD)
            for run in [run for run in active if run.status is not None]:
                active.remove(run)
                run.result = read_result(run.directory)
                run.stopped = bool(signalled() and run.status and not run.result)
                bar.write(describe_end(run, args.nproc), file=sys.stderr)
                bar.update()
            bar.set_description_str("; ".join(map(_describe_state, active)))
            if signalled() and not active:
                return


def _describe_state(run: SeedRun) -> str:
    """Return how far a run is: its env steps, and its newest evaluation."""
    steps, value = 0, ""
    for record in run.evaluations.read():
        steps = record["envstep"]
        value = f" eval {record[RETURN]:.1f}" if record.get(RETURN) is not None else value
    return f"seed {run.seed}: {tqdm.format_sizeof(steps)}{value}"


def describe_end(run: SeedRun, nproc: int) -> str:
    """Return a line about a run of some processes that has ended, with its last line of output if it failed."""
    if not run.status:
        return f"seed {run.seed} ended: {run.result.get('stop_reason', 'no result')}, {run.directory}"
    if run.stopped and not has_checkpoint(run.directory):
        return f"seed {run.seed} stopped before its first checkpoint"
    if run.stopped or "stop_reason" in run.result:  # interrupted, after a checkpoint
        how = f"continue with ding_lite resume {shlex.quote(run.directory)}" + f" --nproc {nproc}" * (nproc > 1)
        return f"seed {run.seed} {run.result.get('stop_reason', 'stopped')}: {how}"
    return f"seed {run.seed} failed: {run.process.last_line() if run.process else ''}"


def table(runs: Sequence[SeedRun]) -> str:
    """Return a table of the runs, with the mean of their best returns and its standard deviation."""
    figures = {"envstep": ",", "eval_return_best": ",.2f", "seconds": ",.0f"}  # columns from result.json -> format
    rows = []
    for run in runs:
        unfinished = "stopped" if run.stopped else "failed" if run.process else "not started"
        ended = run.result.get("stop_reason", unfinished)
        values = [(run.result.get(key), how) for key, how in figures.items()]
        rows.append([str(run.seed), ended, *("-" if value is None else f"{value:{how}}" for value, how in values)])
    header = ["seed", "ended", "env steps", "best return", "seconds"]
    lines = [Table(header, rows, frozenset({0, 2, 3, 4})).text(WIDTH)]
    bests = [best for run in runs if (best := run.result.get("eval_return_best")) is not None]
    if len(bests) > 1:
        lines.append(
            f"best return {statistics.fmean(bests):.2f} +- {statistics.stdev(bests):.2f} over {len(bests)} runs"
        )
    made = [run.directory for run in runs if (run.process or not run.words) and Path(run.directory).is_dir()]
    lines += [f"directories {', '.join(made)}"] if made else []
    return "\n".join(lines)
