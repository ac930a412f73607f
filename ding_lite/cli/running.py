"""The actions of the command line: train, resume runs, evaluate a checkpoint, start the processes of a job.

Several runs have their own processes, side by side or one after another, and a table at the end. They are new runs of
several seeds, or runs that continue in their directories.
"""

from __future__ import annotations

import argparse
import glob
import math
import os
import re
import shlex
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ding_lite.config import SavedRun, compile_config, read_file, read_saved_run
from ding_lite.launch.launcher import run_ranks
from ding_lite.launch.run_process import SeparateRuns, passing_signals_on, process_words, run_all
from ding_lite.policy import Policy
from ding_lite.results.run import RETURN, Evaluations, closest_path, find_checkpoint
from ding_lite.results.table import Table
from ding_lite.run.pipelines import MODES, PIPELINES, limits_for, load_pipeline, pipeline_for, whole_limit
from ding_lite.trained.agent import evaluate_checkpoint, find_pair
from ding_lite.utils.checkpoint.run_directory import has_checkpoint, new_name, read_result, rename_for_seed
from ding_lite.utils.directory_lock import ended_before_learning, find_trap_inside
from ding_lite.utils.logger import ExperimentLogger, console
from ding_lite.utils.printable import show
from ding_lite.utils.ranks.collectives import on_rank_0
from ding_lite.utils.ranks.context import DDPContext
from ding_lite.utils.ranks.launch_environment import read_launch
from ding_lite.utils.registry import ConfigError, UserError

LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter"}  # limits of a run, and their keys in result.json
# What ends a finished run, and may be raised to go on.
COUNTS = {**LIMITS, "policy.learn.train_epoch": "epoch", "max_seconds": "seconds"}
TIME = re.compile(r"_\d{6}_\d{6}(_\d+)?")  # the end of a directory's name, if the plain name was taken
TOGETHER = "policy.multi_gpu=True"  # placed before the user's overrides, which take precedence
WIDTH = 80  # characters of a line of the table


def run(args: argparse.Namespace) -> None:
    """Carry out a command; a user's mistake ends the process with exit status 2."""
    if args.nproc > 1 or args.max_restarts > 0:
        raise SystemExit(launch(args))
    ExperimentLogger.copies_to_pipes = True
    with DDPContext():
        if args.mode == "eval":
            evaluate(args, args.ckpt, "give its config with -c", args.config)
        elif args.resume is not None:
            plan_resume(args.resume, args.words)()
        elif call := plan(args):
            call()


def plan(args: argparse.Namespace) -> Callable[..., Policy] | None:
    """Return a function that runs a config, or continues its run; None if there is nothing to do, which is said."""
    main, create, file_limits = read_file(args.config)
    pair = (main, create)
    limits, overrides = split_words(args.words)
    pipeline = load_pipeline(MODES[args.mode]) if args.mode else pipeline_for(pair, overrides)
    limits = limits_for(pipeline, {**file_limits, **limits})
    overrides = [TOGETHER, "policy.divide=True"] * args.divide + overrides
    if args.seed is not None and "exp_name" in pair[0]:  # before the overrides, which take precedence
        overrides = [f"exp_name={rename_for_seed(pair[0]['exp_name'], args.seed)}", *overrides]
    name = compile_config(pair, overrides=overrides).exp_name if args.goes_on else ""
    if found := on_rank_0(lambda: find_begun(name)) if args.goes_on else "":
        return plan_continued(found, resumed_words(args.words))
    return partial(pipeline, pair, seed=args.seed, overrides=overrides, **limits)


def find_begun(name: str) -> str:
    """Return the directory of the newest run of a name that has saved or finished something; empty if there is none.

    If there is no such run, one that was ended before it learned anything is found: it begins again.
    """
    plain = Path(name).name
    folders = sorted(path for path in Path(name).parent.glob(f"{glob.escape(plain)}*") if path.is_dir())
    found = [path for path in folders if path.name == plain or TIME.fullmatch(path.name, len(plain))]
    found = [path for path in found if not find_trap_inside(path)]
    begun = [path for path in found if read_result(str(path)) or has_checkpoint(str(path))]
    begun = begun or list(filter(ended_before_learning, found))
    return str(begun[-1]) if begun else ""


def resumed_words(words: Sequence[str]) -> list[str]:
    """Return the words of `train --resume` that apply to a run that it continues."""
    return [word for word in words if word.partition("=")[0] not in ("exp_name", "seed")]


def plan_continued(directory: str, words: Sequence[str]) -> Callable[..., Policy] | None:
    """Return a function that continues the run in a directory; None if it is over, which is said."""
    if end := on_rank_0(lambda: find_end(directory, words)):
        on_rank_0(lambda: console(end))
        return None
    return plan_resume(directory, words)


def plan_resume(directory: str, words: Sequence[str]) -> Callable[..., Policy]:
    """Return a function that continues the run in a directory from its newest checkpoint.

    Limits and overrides of `words` replace its own.
    """
    limits, overrides = split_words(words)
    saved = read_resumable(directory)
    if end := find_end(directory, words, any_word=True):
        raise ConfigError(end)
    own = ["policy.learn.resume_training=True", "policy.learn.learner.hook.load_ckpt_before_run="]
    pipeline = load_pipeline(saved.pipeline)
    limits = {**saved.limits, **limits_for(pipeline, limits)}
    overrides = [f"exp_name={directory}", *own, *overrides]
    return partial(pipeline, saved.importable_pair(), overrides=overrides, **limits)


def evaluate(args: argparse.Namespace, path: str, advice: str, config: str | None = None) -> None:
    """Evaluate the checkpoint at a path, with the file `config` or that of its run; for `advice` see `find_pair`."""
    checkpoint = find_checkpoint(path)
    pair = config or find_pair(checkpoint, advice)
    _, overrides = split_words(args.words)
    for key in (word.partition("=")[0] for word in args.words):
        if key in COUNTS:
            raise ConfigError(f"{key} has no effect on an evaluation: leave it out, or set the length with --episodes.")
    evaluate_checkpoint(pair, checkpoint, seed=args.seed, n_episode=args.episodes, overrides=overrides)


def launch(args: argparse.Namespace) -> int:
    """Run this command on `--nproc` processes; return the exit status."""
    if read_launch() is not None:
        raise UserError("--nproc and --max-restarts start processes: leave them out under another launcher or srun.")
    limits, overrides = split_words(args.words)
    pipeline = MODES.get(args.mode, "")  # empty: the ranks find it by the policy's class
    if args.resume is not None and not args.together:
        saved = read_resumable(args.resume)
        compile_config(saved.importable_pair(), overrides=overrides)  # finds mistakes before anything starts
        pipeline = saved.pipeline
        if end := find_end(args.resume, args.words, any_word=True):
            raise ConfigError(end)
    if pipeline:
        limits_for(load_pipeline(pipeline), limits)
    together = ["--together"] * args.together
    if args.config is not None:
        what = ["train", "-c", args.config]
    else:
        what = ["resume", *(args.directories if together else [args.resume])]
    what += ["--resume"] * args.goes_on
    what += ["-m", args.mode] * bool(args.mode) + ["--divide"] * args.divide
    seeds = args.seeds if together else [args.seed]
    seed = ["-s", *map(str, seeds)] if seeds and seeds != [None] else []
    learns_alone = args.nproc == 1 or pipeline == MODES["rpc"]  # under rpc only the agent learns
    command = [sys.executable, "-u", "-m", "ding_lite", *what, *together, *seed, *([] if learns_alone else [TOGETHER])]
    return run_ranks([*command, *args.words], args.nproc, args.max_restarts)


def check_limits(
    config: str | Sequence[dict[str, Any]], limits: dict[str, int], overrides: Sequence[str]
) -> dict[str, int]:
    """Return limits under the names of the parameters of a config's pipeline."""
    return limits_for(pipeline_for(config, overrides), limits)


def read_resumable(directory: str) -> SavedRun:
    """Return what the run in a directory has saved."""
    path = os.path.join(directory, "total_config.py")
    if not os.path.isdir(directory):
        raise ConfigError(f"Cannot resume '{directory}': there is no such directory.{closest_path(directory)}")
    if not os.path.isfile(path):
        raise ConfigError(
            f"Cannot resume '{directory}': it is not an experiment directory, total_config.py is missing."
        )
    if trap := find_trap_inside(directory):
        raise ConfigError(f"Cannot resume '{directory}': {trap}")
    saved = read_saved_run(path)
    if saved.pipeline not in PIPELINES:
        raise ConfigError(f"'{path}' names no pipeline, so it was changed: start it as a new run with -c.")
    return saved


def find_end(directory: str, words: Sequence[str], any_word: bool = False) -> str:
    """Return why the run in a directory is over, in a sentence; empty if it can go on.

    Args:
        directory: the experiment directory.
        words: the user's `key=value`, which may raise the limit that the run has reached.
        any_word: whether a finished run goes on with any words, such as a greater data set.
    """
    result = read_result(directory)
    reason = result.get("stop_reason", "interrupted")
    given = dict(word.partition("=")[::2] for word in words)  # the last one counts
    if reason == "interrupted":  # the last evaluation may be missing, even if a limit has been reached
        return ""
    for key, text in given.items():
        count = result.get(COUNTS.get(key, ""), 0)
        if count and whole_limit(key, text) <= count:
            return (
                f"The run in '{directory}' has reached {key}={text} already: to train further, give more than {count}."
            )
    limit = next((key for key in COUNTS if key.endswith(reason)), "env.stop_value")
    goal = given.get("env.stop_value", "")
    same_goal = reason == "stop_value" and goal == str(read_resumable(directory).main_config["env"]["stop_value"])
    if reason == "callback" or (words and any_word) or (limit in given and not same_goal):
        return ""
    what = f"{limit}={math.ceil(2 * result[COUNTS[limit]])}" if limit in COUNTS else f"{limit}=None"
    return f"The run in '{directory}' has finished ({reason}): to train further, change the limit, such as {what}."


def split_words(words: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Separate the limits `max_env_step=...` and `max_train_iter=...` from overrides of the config."""
    limits: dict[str, int] = {}
    overrides = []
    for word in words:
        key, _, text = word.partition("=")
        if key in LIMITS:
            limits[key] = whole_limit(key, text)
        elif key == "policy":
            overrides.append(f"policy.type={text}")
        else:
            overrides.append(word)
    return limits, overrides


@dataclass
class SeedRun:
    """A run of one seed."""

    seed: int
    directory: str  # the run's directory
    process: Any = None  # a `RunProcess`, or something with its attributes; None before the run is started
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
    seeds, runs = args.seeds or [cfg.seed], list[SeedRun]()
    for seed in seeds:
        name = rename_for_seed(cfg.exp_name, seed, always=len(seeds) > 1)
        if args.goes_on and (begun := find_begun(name)):
            runs.append(_continued(seed, begun, resumed_words(args.words), args))
            continue
        words = ["train", "-c", args.config, "-s", str(seed), *process_words(args)]
        words += ["--divide"] * args.divide + (["-m", args.mode] if args.mode else [])
        directory = new_name(name)
        runs.append(SeedRun(seed, directory, words=[*words, *args.words, f"exp_name={directory}"]))
    return _run(runs, args)


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
        console(end)
        return SeedRun(seed, directory, result=read_result(directory))
    return SeedRun(seed, directory, words=["resume", directory, *process_words(args), *words])


def _run(runs: Sequence[SeedRun], args: argparse.Namespace) -> int:
    """Carry out runs and print their table; return the exit status: 0, or that of the first run that failed.

    A signal is passed on to the runs, which save a checkpoint and end; no further run is started.
    """
    starter = SeparateRuns(args, Path(runs[0].directory).parent, sum(bool(run.words) for run in runs))
    try:
        with passing_signals_on(lambda: [run.process for run in runs if run.process]) as signalled:
            _run_all(runs, args.nproc, starter, signalled)
    finally:
        for process in (run.process for run in runs if run.process):
            process.close()
    show(table(runs))
    status = next((run.status for run in runs if run.status), 0)
    return 128 - status if status < 0 else status  # a shell reports signal n as status 128 + n


def _run_all(runs: Sequence[SeedRun], nproc: int, starter: SeparateRuns, signalled: Callable[[], int]) -> None:
    """Start the runs, as many at a time as there may be, and wait for them to end."""
    waiting = [run for run in runs if run.words]
    layout = "{n_fmt}/{total_fmt} runs, {elapsed} | {desc}"
    with tqdm(total=len(waiting), bar_format=layout, dynamic_ncols=True, disable=not sys.stderr.isatty()) as bar:

        def end(run: SeedRun) -> None:
            run.result = read_result(run.directory)
            run.stopped = bool(signalled() and run.status and not run.result)
            console(describe_end(run, nproc))
            bar.update()

        def show_states(active: Sequence[SeedRun]) -> None:
            bar.set_description_str("; ".join(map(_describe_state, active)))

        run_all(waiting, starter, signalled, end, show_states)


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
