"""Runs a sweep: trains the seeds of its trials, several side by side, and ends those that fall behind.

At the end it writes what it has found: a table of the trials, the best config, and pictures.
"""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BruteForceSampler, RandomSampler, TPESampler
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.trial import Trial, TrialState
from tqdm import tqdm

from ding_lite.launch.run_process import SeparateRuns, passing_signals_on
from ding_lite.results.run import RETURN, Evaluations
from ding_lite.sweep.outcome import show_values, write_outcome
from ding_lite.sweep.plan import SweepPlan
from ding_lite.sweep.study import ERROR, RUNS, UNFINISHED, count_points, first_number, open_study
from ding_lite.utils.checkpoint.run_directory import has_checkpoint, new_name, read_result
from ding_lite.utils.directory_lock import is_active
from ding_lite.utils.logger import console
from ding_lite.utils.passwords import hide_passwords
from ding_lite.utils.registry import UserError

MAX_FAILURES = 3  # failed trials of this process, without any other, after which it gives up
TRIALS = 20  # default of --trials; a grid has one for each of its points
MARKS = 20  # moments at which runs with a limit are compared
Steps = Generator[None, None, Any]  # pauses until the next check


class RunInterruptedError(Exception):
    """A run was interrupted, and can be continued."""


class RunFailedError(Exception):
    """A run failed, for the reason that the error names."""


class Sweep:
    """A sweep that this process takes part in. It is checked before anything starts.

    `starter` starts the runs and has the methods of `SeparateRuns`, which is used if it is None.
    """

    def __init__(self, plan: SweepPlan, starter: Any = None) -> None:
        self._plan, args = plan, plan.args
        points = count_points(plan.space) if args.sampler == "grid" else math.inf
        self._trials = int(min(args.trials or (TRIALS if points == math.inf else points), points))
        self._starter = starter or SeparateRuns(args, plan.folder, self._trials)
        samplers = {"tpe": TPESampler(constant_liar=True), "random": RandomSampler(), "grid": BruteForceSampler()}
        # The first quarter of a trial's first run prunes nothing.
        median = optuna.pruners.MedianPruner(n_startup_trials=args.prune_after, n_warmup_steps=plan.limit // 4 + 1)
        self._study = open_study(
            args.storage or str(plan.folder / "journal.log"),
            plan.problem,
            study_name=plan.folder.resolve().name,
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
        plan = self._plan
        try:
            with passing_signals_on(lambda: self._processes.values()) as self._signalled:
                try:
                    self._run_trials()
                finally:  # the runs save and end
                    for process in self._processes.values():
                        process.send_signal(signal.SIGTERM)
                    for _, steps in self._active.values():
                        steps.close()
                best = write_outcome(self._study, plan.folder, plan.compile, plan.limits)
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
                while len(self._active) < self._starter.jobs and not self._ends:
                    distinct = self._plan.args.sampler == "grid"
                    trial = self._study.claim(self._plan.space, self._trials, distinct)
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
            for seed in self._plan.seeds:
                scores.append((yield from self._train(trial, seed, scores)))
        return sum(scores) / len(scores)

    def _train(self, trial: Trial, seed: int, before: Sequence[float]) -> Steps:
        """Train with a seed, or continue its run, and return its score."""
        name = str(trial.user_attrs.get(RUNS, {}).get(str(seed), "none"))  # "none": there is no such directory
        # Nowhere else, because others may write into the storage.
        run = Evaluations(self._plan.folder / Path(name).name)
        while run.directory.is_dir() and is_active(run.directory):  # the run still writes its last checkpoint
            yield
        if read_result(str(run.directory)).get("stop_reason", "interrupted") != "interrupted":
            if self._falls_behind(trial, run, before, ended=True):
                raise optuna.TrialPruned
        elif not has_checkpoint(str(run.directory)) or (
            yield from self._execute(trial, run, before, self._plan.resume(str(run.directory), {}))
        ):  # there is no checkpoint, or none can be read
            number = first_number(self._study.trials[trial.number])
            run = Evaluations(Path(new_name(str(self._plan.folder / f"trial_{number:04}_seed{seed}"))))
            trial.set_user_attr(RUNS, {**trial.user_attrs.get(RUNS, {}), str(seed): run.directory.name})
            words = self._plan.train(str(run.directory), seed, trial.params)
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
        marks = self._marks(run, ended) if self._plan.limit else {}
        start, last = len(before) * self._plan.limit, self._reported.get(trial.number, -1)
        new = [mark for mark in marks if start + mark > last]
        for mark in new:
            self._reported[trial.number] = start + mark
            trial.report((sum(before) + marks[mark]) / (len(before) + 1), start + mark)
        complete = ended and len(before) + 1 == len(self._plan.seeds)
        return bool(new) and not complete and trial.should_prune()

    def _marks(self, run: Evaluations, ended: bool) -> dict[int, float]:
        """Return the score of a run so far at each mark that it has passed.

        Evaluations may be at other moments. A run that has ended keeps its score at the marks that it did not reach.
        """
        points = [(record[self._plan.axis], record[RETURN]) for record in run.read() if record.get(RETURN) is not None]
        reached = max((record[self._plan.axis] for record in run.read()), default=0)
        marks = [self._plan.limit * (part + 1) // MARKS for part in range(MARKS)]
        passed = {mark: [y for x, y in points if x <= mark] for mark in marks if ended or reached > mark}
        return {mark: self._score(values) for mark, values in passed.items() if values}

    def _score(self, values: Sequence[float]) -> float:
        return max(values) if self._plan.args.score == "best" else values[-1]
