"""Runs a sweep: trains the seeds of its trials, several side by side, and ends those that fall behind.

At the end it writes what it has found: a table of the trials, the best config, and pictures.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.trial import FrozenTrial, Trial, TrialState
from tqdm import tqdm

from ding_lite.config import compile_config, save_config
from ding_lite.launch.run_process import SeparateRuns, passing_signals_on, process_words
from ding_lite.results.groups import short_value, shorten
from ding_lite.results.run import RETURN, Evaluations
from ding_lite.results.table import Table, show_number
from ding_lite.sweep.study import (
    ERROR,
    RUNS,
    UNFINISHED,
    SharedStudy,
    Space,
    Value,
    check_space,
    count_points,
    first_number,
    first_values,
    open_study,
    to_words,
)
from ding_lite.utils.checkpoint.run_directory import has_checkpoint, new_name, read_result
from ding_lite.utils.directory_lock import find_trap_inside, is_active
from ding_lite.utils.logger import console
from ding_lite.utils.passwords import hide_passwords
from ding_lite.utils.registry import UserError, load_extra
from ding_lite.utils.tree import dotted_items

MAX_FAILURES = 3  # failed trials of this process, without any other, after which it gives up
TRIALS = 20  # default of --trials; a grid has one for each of its points
MARKS = 20  # moments at which runs with a limit are compared
LIMITS = {"max_env_step": "envstep", "max_train_iter": "train_iter"}  # and what a record calls them
Steps = Generator[None, None, Any]  # pauses until the next check


class RunInterruptedError(Exception):
    """A run was interrupted, and can be continued."""


class RunFailedError(Exception):
    """A run failed, for the reason that the error names."""


class Sweep:
    """A sweep that this process takes part in. It is checked before anything starts.

    `args` are the options of the command `sweep`, `pair` is the config, and `space` what differs among trials, whose
    other `words` are the same. `limits` of each run have their names on the command line. `starter` starts the runs
    and has the methods of `SeparateRuns`, which is used if it is None.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        pair: tuple[dict[str, Any], dict[str, Any]],
        space: Space,
        words: Sequence[str],
        limits: dict[str, int],
        starter: Any = None,
    ) -> None:
        self._args, self._pair, self._words, self._limits = args, pair, words, limits
        self._space = check_space(space, self._compile)
        first = self._compile(first_values(self._space))
        name = first.exp_name.rstrip("/").removesuffix(f"_seed{first.seed}")
        self._folder = Path(args.output or f"{name}_sweep")
        if trap := find_trap_inside(self._folder):
            raise UserError(f"Cannot sweep in '{self._folder}': {trap}")
        name = self._folder.resolve().name
        group = [f"tracker.group={name}"] if first.tracker.type and first.tracker.group is None else []
        self._options = process_words(args)  # of each run
        self._train_words = ["-c", args.config, *self._options, *["--divide"] * args.divide, *group, *words]
        self._seeds = args.seeds or [first.seed]
        limit = next((limit for limit in LIMITS if limit in limits), "max_env_step")
        self._limit, self._axis = limits.get(limit, 0), LIMITS[limit]
        points = count_points(self._space) if args.sampler == "grid" else math.inf
        self._trials = int(min(args.trials or (TRIALS if points == math.inf else points), points))
        self._starter = starter or SeparateRuns(args, self._folder, self._trials)
        samplers = {"tpe": TPESampler(constant_liar=True), "random": RandomSampler(), "grid": BruteForceSampler()}
        # The first quarter of a trial's first run prunes nothing.
        median = optuna.pruners.MedianPruner(n_startup_trials=args.prune_after, n_warmup_steps=self._limit // 4 + 1)
        self._study = open_study(
            args.storage or str(self._folder / "journal.log"),
            self._problem(first),
            study_name=name,
            sampler=samplers[args.sampler],
            pruner=median if args.pruner == "median" else optuna.pruners.NopPruner(),
        )
        self._active: dict[int, tuple[Trial, Steps]] = {}
        self._processes: dict[int, Any] = {}  # what the starter returned, by the numbers of their trials
        self._reported: dict[int, int] = {}  # the newest mark of each trial
        self._signalled: Callable[[], int] = int
        self._failed, self._succeeded = 0, False

    def run(self) -> int:
        """Run trials until all of the study have ended, write the outcome, and return the exit status."""
        try:
            with passing_signals_on(lambda: self._processes.values()) as self._signalled:
                try:
                    self._run_trials()
                finally:  # the runs save and end
                    for process in self._processes.values():
                        process.send_signal(signal.SIGTERM)
                    for _, steps in self._active.values():
                        steps.close()
                best = write_outcome(self._study, self._folder, self._compile, self._limits)
        except (OSError, optuna.exceptions.StorageInternalError) as error:
            raise UserError(
                f"The sweep's storage or directory fails, so its runs were stopped: {hide_passwords(str(error))}. "
                "Repeat the command to continue."
            ) from None
        return 128 + self._signalled() if self._signalled() else int(not best)

    def _run_trials(self) -> None:
        """Run trials until all of the study have ended, or a signal has arrived."""
        layout = "{n_fmt}/{total_fmt} trials, {elapsed} | {desc}"
        with tqdm(total=self._trials, bar_format=layout, dynamic_ncols=True, disable=not sys.stderr.isatty()) as bar:
            while True:
                while len(self._active) < self._args.jobs and not self._ends:
                    trial = self._study.claim(self._space, self._trials, distinct=self._args.sampler == "grid")
                    if trial is None:
                        break
                    self._active[trial.number] = trial, self._try(trial)
                unfinished = [trial.number for trial in self._study.count(*UNFINISHED)]
                if not self._active and (self._ends or not unfinished):
                    break
                bar.n = len(self._study.count()) - len(unfinished)
                bar.set_description_str(f"running: {', '.join(map(str, unfinished))}")
                self._look()
                self._starter.wait(len(self._active), self._look)
        if self._ends and not self._signalled():
            raise UserError(f"The first {MAX_FAILURES} trials failed, so the sweep ends: see the lines above.")

    def _look(self) -> None:
        """Look at the runs of all trials, and let the trials continue."""
        for number, (trial, steps) in list(self._active.items()):
            if ending := self._advance(trial, steps):
                del self._active[number]
                console(f"trial {number} {ending} ({show_values(trial.params)})")

    @property
    def _ends(self) -> bool:
        return bool(self._signalled()) or (self._failed >= MAX_FAILURES and not self._succeeded)

    def _advance(self, trial: Trial, steps: Steps) -> str:
        """Let a trial continue. Return how it has ended, "" before its end."""
        state, value = TrialState.FAIL, None
        try:
            if self._signalled() and trial.number not in self._processes:  # between two runs
                steps.throw(RunInterruptedError())
            next(steps)
            return ""
        except StopIteration as finished:
            state, value, ending = TrialState.COMPLETE, finished.value, f"{finished.value:.2f}"
        except optuna.TrialPruned:
            state, ending = TrialState.PRUNED, "pruned"
        except RunFailedError as error:
            trial.set_user_attr(ERROR, str(error))
            ending = f"failed: {error}"
        except RunInterruptedError:
            self._study.retry(trial)
            return "interrupted"
        except optuna.exceptions.UpdateFinishedTrialError:  # by a report
            return "was taken over by another process"
        self._failed += state == TrialState.FAIL
        self._succeeded |= state != TrialState.FAIL
        self._study.tell(trial, value, state, skip_if_finished=True)
        return ending

    def _try(self, trial: Trial) -> Steps:
        """Train with each seed, and return the mean of the scores."""
        scores: list[float] = []
        with get_heartbeat_thread(trial._trial_id, self._study._storage):
            for seed in self._seeds:
                scores.append((yield from self._train(trial, seed, scores)))
        return sum(scores) / len(scores)

    def _train(self, trial: Trial, seed: int, before: Sequence[float]) -> Steps:
        """Train with a seed, or continue its run, and return its score."""
        name = str(trial.user_attrs.get(RUNS, {}).get(str(seed), "none"))  # "none": there is no such directory
        run = Evaluations(self._folder / Path(name).name)  # nowhere else, because others may write into the storage
        while run.directory.is_dir() and is_active(run.directory):  # the run still writes its last checkpoint
            yield
        if read_result(str(run.directory)).get("stop_reason", "interrupted") != "interrupted":
            if self._falls_behind(trial, run, before, ended=True):
                raise optuna.TrialPruned
        elif not has_checkpoint(str(run.directory)) or (
            yield from self._execute(trial, run, before, ["resume", str(run.directory), *self._options])
        ):  # there is no checkpoint, or none can be read
            number = first_number(self._study.trials[trial.number])
            run = Evaluations(Path(new_name(str(self._folder / f"trial_{number:04}_seed{seed}"))))
            trial.set_user_attr(RUNS, {**trial.user_attrs.get(RUNS, {}), str(seed): run.directory.name})
            own = to_words({**trial.params, **self._limits, "exp_name": str(run.directory)})
            words = ["train", "-s", str(seed), *self._train_words, *own]
            if failure := (yield from self._execute(trial, run, before, words)):
                raise RunFailedError(failure)
        values = [record[RETURN] for record in run.read() if record.get(RETURN) is not None]
        if not values:
            raise RunFailedError(f"{run.directory} has recorded no evaluation")
        return self._score(values)

    def _execute(self, trial: Trial, run: Evaluations, before: Sequence[float], words: Sequence[str]) -> Steps:
        """Start a process with the words after `ding_lite` and wait for its end. Return why it failed, or ""."""
        yield  # a signal may have arrived
        process = self._starter.start(words, str(run.directory))
        self._processes[trial.number] = process
        status, pruned = None, False
        try:
            while status is None:
                yield
                status = process.status
                if not pruned and self._falls_behind(trial, run, before, ended=status == 0):
                    pruned = True
                    process.send_signal(signal.SIGTERM)
            if pruned:
                raise optuna.TrialPruned
            saved = read_result(str(run.directory)).get("stop_reason") == "interrupted"
            if status and (self._signalled() or (saved and not 0 < status <= 128)):
                raise RunInterruptedError
            return process.last_line() if status else ""
        finally:
            process.close()
            del self._processes[trial.number]

    def _falls_behind(self, trial: Trial, run: Evaluations, before: Sequence[float], ended: bool) -> bool:
        """Report new marks of a run, and return whether the pruner ends the trial.

        Runs without a limit are not compared. The value of a mark is the mean over the scores of the seeds before it
        and that of this seed so far; it is compared with those of other trials at the same mark of the same seed.
        """
        marks = self._marks(run, ended) if self._limit else {}
        start, last = len(before) * self._limit, self._reported.get(trial.number, -1)
        new = [mark for mark in marks if start + mark > last]
        for mark in new:
            self._reported[trial.number] = start + mark
            trial.report((sum(before) + marks[mark]) / (len(before) + 1), start + mark)
        complete = ended and len(before) + 1 == len(self._seeds)
        return bool(new) and not complete and trial.should_prune()

    def _marks(self, run: Evaluations, ended: bool) -> dict[int, float]:
        """Return the score of a run so far at each mark that it has passed.

        Evaluations may be at other moments. A run that has ended keeps its score at the marks that it did not reach.
        """
        points = [(record[self._axis], record[RETURN]) for record in run.read() if record.get(RETURN) is not None]
        reached = max((record[self._axis] for record in run.read()), default=0)
        marks = [self._limit * (part + 1) // MARKS for part in range(MARKS)]
        passed = {mark: [y for x, y in points if x <= mark] for mark in marks if ended or reached > mark}
        return {mark: self._score(values) for mark, values in passed.items() if values}

    def _score(self, values: Sequence[float]) -> float:
        return max(values) if self._args.score == "best" else values[-1]

    def _compile(self, values: Mapping[str, Value], *words: str) -> Any:
        """Compile the config with values for the keys that differ among trials."""
        return compile_config(self._pair, overrides=[*self._words, *to_words(values), *words])

    def _problem(self, first: Any) -> dict[str, Any]:
        own = ("exp_name", "seed", "notes", *self._space)
        config = {key: value for key, value in dotted_items(first) if key not in own and not key.startswith("tracker.")}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
        space = {key: optuna.distributions.distribution_to_json(values) for key, values in self._space.items()}
        return {"space": space, "seeds": self._seeds, "limits": self._limits, "score": self._args.score, "cfg": digest}


TABLE, BEST = "trials.csv", "best_config.py"
WIDTH, SHOWN, DIGITS = 80, 20, 4  # the table's characters in a line, trials, and significant digits of a value
ENDINGS = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
PICTURES = ("optimization_history", "slice", "param_importances", "parallel_coordinate")  # of Optuna
PANEL = 5  # inches: the width of a panel of slices


def write_outcome(study: SharedStudy, folder: Path, compiles: Callable[..., Any], limits: dict[str, int]) -> bool:
    """Print the trials, write table, best config and pictures into `folder`, and return whether there is a best trial.

    `compiles` compiles the config with values for some keys, and words `key=value`; `limits` are those of each run.
    """
    trials, complete = study.count(*ENDINGS), study.count(TrialState.COMPLETE)
    if trials:
        table = tabulate(trials)
        print(Table(table.header, table.rows[:SHOWN], table.right).text(WIDTH))
    if len(trials) > SHOWN:
        print(f"... and {len(trials) - SHOWN} more, see {folder / TABLE}")
    if left := len(study.count(*UNFINISHED)):
        print(f"{'1 trial has' if left == 1 else f'{left} trials have'} not ended: repeat the command to continue.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TABLE).write_text(tabulate(trials, whole=True).csv() + "\n", encoding="utf-8")
    if complete:
        best = study.best_trial
        save_config(compiles(best.params, f"exp_name={folder.name}_best"), folder / BEST, "", **limits)
        print(f"best: trial {best.number} with {show_number(best.value)}, {folder / BEST}")
    else:
        print("No trial is complete, so there is no best config.")
    with suppress(UserError):  # matplotlib is not installed
        if len(complete) > 1 and (pictures := draw_pictures(study, folder)):
            print(f"pictures: {', '.join(pictures)} in {folder}")
    return bool(complete)


def tabulate(trials: Sequence[FrozenTrial], whole: bool = False) -> Table:
    """Return a table of trials, the best one first; `whole`, with directories, and numbers and keys in full."""
    keys, rows, order = list(trials[0].params) if trials else [], list[list[str]](), list(ENDINGS)
    for trial in sorted(trials, key=lambda trial: (order.index(trial.state), -(trial.value or 0.0), trial.number)):
        cells = [str(trial.params[key]) if whole else short_value(trial.params[key], DIGITS) for key in keys]
        score = str(trial.value) if whole and trial.value is not None else show_number(trial.value)
        places = [" ".join(trial.user_attrs.get(RUNS, {}).values()), trial.user_attrs.get(ERROR, "")]
        rows.append([str(trial.number), score, ENDINGS[trial.state], *cells, *(places if whole else [])])
    names = [*keys, "runs", "error"] if whole else shorten(keys)
    return Table(["trial", "score", "ended", *names], rows, frozenset({0, 1, *range(3, 3 + len(keys))}))


def show_values(values: Mapping[str, Any]) -> str:
    """Return values as `key=value` with short keys."""
    names = zip(shorten(list(values)), values.values(), strict=True)
    return ", ".join(f"{name}={short_value(value, DIGITS)}" for name, value in names)


def draw_pictures(study: SharedStudy, folder: Path) -> list[str]:
    """Draw Optuna's pictures of the complete trials, and return the names of the files."""
    load_extra("matplotlib", "plot").use("Agg")
    figures, plots = load_extra("matplotlib.pyplot", "plot"), load_extra("optuna.visualization.matplotlib", "sweep")
    keys, drawn = list(study.best_trial.params), list[str]()
    short = dict(zip(keys, shorten(keys), strict=True))  # names that fit under a panel
    copy = optuna.create_study(direction="maximize")
    for trial in study.trials:  # all of them, which keeps their numbers
        trial.params = {short[key]: value for key, value in trial.params.items()}
        trial.distributions = {short[key]: kind for key, kind in trial.distributions.items()}
        copy.add_trial(trial)
    for name in PICTURES:
        with warnings.catch_warnings(), suppress(ValueError, RuntimeError, ImportError):  # too few trials for it
            warnings.simplefilter("ignore")
            getattr(plots, f"plot_{name}")(copy, target_name="score")
            if name == "slice":
                figures.gcf().set_size_inches(PANEL * max(len(keys), 2), 4)
                for panel in figures.gcf().axes:  # or the numbers at logarithmic axes overlap
                    panel.tick_params("x", which="both", rotation=90)
            figures.savefig(folder / f"{name}.png", dpi=150, bbox_inches="tight")
            drawn.append(f"{name}.png")
    figures.close("all")
    return drawn
