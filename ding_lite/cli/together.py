"""`--together`: several runs of the command line in step, in the same processes."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from ding_lite.cli.running import (
    SeedRun,
    describe_end,
    find_begun,
    launch,
    plan,
    plan_continued,
    read_resumable,
    split_words,
    table,
)
from ding_lite.config import compile_config
from ding_lite.policy import Policy
from ding_lite.utils.checkpoint.run_directory import read_result, rename_for_seed
from ding_lite.utils.logger import ExperimentLogger, console
from ding_lite.utils.printable import show
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.registry import ConfigError, UserError, load_extra

Plan = tuple[list[SeedRun], dict[str, Callable[..., Policy]]]  # the runs, and what trains them, by name
PERIOD = 0.2  # seconds between two updates of the progress line


@dataclass
class Outcome:
    """How a run ended, like a `RunProcess` that has ended."""

    error: BaseException | None

    @property
    def status(self) -> int:
        """Exit status that a process of this run alone would have."""
        if isinstance(self.error, SystemExit):
            return self.error.code if isinstance(self.error.code, int) else 1
        return 2 if isinstance(self.error, UserError) else int(self.error is not None)

    def last_line(self) -> str:
        """Return the error in a line."""
        name = "" if isinstance(self.error, UserError | SystemExit) else f"{type(self.error).__name__}: "
        return f"{name}{self.error}"


def run_together(args: argparse.Namespace) -> int:
    """Train runs of several seeds, or go on with those in several directories, in step; return the exit status."""
    names = args.seeds if args.config is not None else args.directories
    if len(names or []) < 2:
        raise ConfigError("--together trains several runs: give several seeds or directories, or leave it out.")
    if args.jobs or args.submit:
        raise ConfigError("--together has one group of processes for all runs: leave out --jobs and --submit.")
    if args.mode == "rpc":
        raise ConfigError("--together does not train what observers play: leave -m rpc or --together out.")
    load_extra("greenlet", "together", "--together")
    if args.nproc > 1 or args.max_restarts > 0:
        return launch(args)
    ExperimentLogger.copies_to_pipes = True
    with DDPContext():
        return _carry_out(args)


def _plan_seeds(args: argparse.Namespace) -> Plan:
    """Return a run for each seed, and the functions that begin or continue those that are not over."""
    _, overrides = split_words(args.words)
    cfg = compile_config(args.config, overrides=overrides)  # also finds mistakes before anything starts
    runs, calls = list[SeedRun](), dict[str, Callable[..., Policy]]()
    for seed in args.seeds:
        name = rename_for_seed(cfg.exp_name, seed, always=True)
        words = [*args.words, f"exp_name={name}"]
        call = plan(argparse.Namespace(**vars(args) | {"seed": seed, "words": words}))
        runs.append(SeedRun(seed, name) if call else _over(seed, find_begun(name)))
        calls |= {f"seed {seed}": call} if call else {}
    return runs, calls


def _plan_resumed(args: argparse.Namespace) -> Plan:
    """Return the runs in the directories, and the functions that continue those that are not over."""
    runs, calls = list[SeedRun](), dict[str, Callable[..., Policy]]()
    for directory in args.directories:
        seed, call = read_resumable(directory).main_config["seed"], plan_continued(directory, args.words)
        if f"seed {seed}" in calls:
            raise ConfigError(f"--together: two of the runs have seed {seed}: continue one of them alone.")
        runs.append(SeedRun(seed, directory) if call else _over(seed, directory))
        calls |= {f"seed {seed}": call} if call else {}
    return runs, calls


def _over(seed: int, directory: str) -> SeedRun:
    return SeedRun(seed, directory, result=read_result(directory))


def _carry_out(args: argparse.Namespace) -> int:
    """Train the runs on this rank; return the exit status: 0, or that of the first run that failed."""
    from ding_lite.together.runs import RunState, train_together  # noqa: PLC0415  (it needs the extra)

    runs, calls = _plan_resumed(args) if args.config is None else _plan_seeds(args)
    of_name = {f"seed {run.seed}": run for run in runs}
    is_first, last = get_rank() == 0, [time.monotonic()]
    layout, enabled = "{n_fmt}/{total_fmt} runs, {elapsed} | {desc}", is_first and sys.stderr.isatty()
    with tqdm(total=len(calls), bar_format=layout, dynamic_ncols=True, disable=not enabled) as bar:

        def progress(states: Sequence[RunState]) -> None:
            if enabled and time.monotonic() >= last[0] + PERIOD:
                last[0] = time.monotonic()
                bar.set_description_str("; ".join(f"{each.name}: {each.progress}" for each in states if each.progress))

        def end(state: RunState) -> None:
            run = of_name[state.name]
            outcome = run.process = Outcome(state.error)
            run.directory = state.directory or run.directory
            run.result = read_result(run.directory) if state.directory else {}
            run.stopped = outcome.status >= 128
            state.progress = ""
            bar.update()
            if is_first:
                console(describe_end(run, args.nproc))
                if state.error is not None and not isinstance(state.error, UserError | SystemExit):
                    console("".join(traceback.format_exception(state.error)).rstrip())

        train_together(calls, progress, end)
    if is_first:
        show(table(runs))
    return next((run.status for run in runs if run.status), 0)
