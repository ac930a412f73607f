"""`--together`: several runs of the command line in step, in the same processes; also the runs that a sweep starts."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ding_lite.cli.parsers import check_run_options, load_command, parse
from ding_lite.cli.running import (
    SeedRun,
    describe_end,
    find_begun,
    launch,
    plan,
    plan_continued,
    plan_resume,
    read_resumable,
    split_words,
    table,
)
from ding_lite.config import compile_config
from ding_lite.launch.run_process import LOOK_PERIOD
from ding_lite.policy import Policy
from ding_lite.run.callbacks import Callback, WatchedRun
from ding_lite.utils.checkpoint.run_directory import read_result, rename_for_seed
from ding_lite.utils.logger import ExperimentLogger, console
from ding_lite.utils.printable import show
from ding_lite.utils.ranks.collectives import get_rank
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.registry import ConfigError, UserError, load_extra

Plan = tuple[list[SeedRun], dict[str, Callable[..., Policy]]]  # the runs, and what trains them, by name
PERIOD = 0.2  # seconds between two updates of the progress line, or two looks at who waits


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


class StepRun(Callback):
    """A run that `RunsInStep` trains; it is used as `RunProcess` is."""

    def __init__(self, words: Sequence[str], name: str) -> None:
        self.name, self._words = name, words
        self._begun = self._stops = False
        self._end: Outcome | None = None

    def carry_out(self, callbacks: Sequence[Callback]) -> Policy:
        """Begin or continue the run."""
        self._begun = True
        command, *words = self._words
        args = parse(command, load_command(command), words)
        check_run_options(args)
        if command == "resume":
            (directory,) = args.directories
            call: Any = plan_resume(directory, args.words)
        else:
            (args.seed,) = args.seeds
            call = plan(args)
        return call(callbacks=[*callbacks, self])

    def after_update(self, run: WatchedRun, output: Mapping[str, Any]) -> None:
        """Stop the run if it was asked to end."""
        if self._stops:
            run.stop()

    @property
    def status(self) -> int | None:
        return self._end.status if self._end else None

    def ended(self, error: BaseException | None) -> None:
        """Note how it ended."""
        self._end = Outcome(error)

    def last_line(self) -> str:
        return self._end.last_line() if self._end else ""

    def send_signal(self, signum: int) -> None:
        """Ask the run to end."""
        self._stops = True
        if not self._begun:
            self._end = Outcome(SystemExit(128 + signum))

    def close(self) -> None:
        """Do nothing: a run is over when its group is."""


class RunsInStep:
    """Starts the runs of a sweep in this process, in groups of `jobs`, and trains each group in step."""

    def __init__(self, jobs: int) -> None:
        load_extra("greenlet", "together", "--together")
        self.jobs = jobs
        self._waiting: list[StepRun] = []
        ExperimentLogger.copies_to_pipes = True

    def start(self, words: Sequence[str], directory: str) -> StepRun:
        """Let a run of the command line wait for the others of its group; the words follow `ding_lite`."""
        self._waiting.append(StepRun(words, Path(directory).name))
        return self._waiting[-1]

    def wait(self, active: int, look: Callable[[], None]) -> None:
        """Train the runs that wait, if they are all that are `active`, and call `look` from time to time."""
        if not self._waiting or len(self._waiting) < active:
            time.sleep(PERIOD)
            return
        runs, self._waiting = {run.name: run for run in self._waiting if run.status is None}, []
        from ding_lite.together.runs import RunState, train_together  # noqa: PLC0415  (it needs the extra)

        last, codes = [time.monotonic()], [0]

        def progress(states: Sequence[RunState]) -> None:
            if time.monotonic() >= last[0] + LOOK_PERIOD:
                last[0] = time.monotonic()
                look()

        def end(state: RunState) -> None:
            runs[state.name].ended(state.error)
            codes.append(runs[state.name].status or 0)

        with DDPContext():
            train_together({name: run.carry_out for name, run in runs.items()}, progress, end)
        if max(codes) >= 128:
            signal.raise_signal(max(codes) - 128)  # now for the handler of the sweep
