"""Runs a sweep: claims trials, runs several of them side by side, and ends them."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ding_lite.config import compile_config
from ding_lite.sweep.outcome import show_values, write_outcome
from ding_lite.sweep.scores import find_marks
from ding_lite.sweep.space import Dimension, Value, check_dimensions, to_words
from ding_lite.sweep.study import SharedStudy, StudyOptions, grid, load_optuna
from ding_lite.sweep.trial import Ending, TrialRuns
from ding_lite.utils.passwords import hide_passwords
from ding_lite.utils.registry import UserError
from ding_lite.utils.run_process import RunProcess, passing_signals_on
from ding_lite.utils.tree import dotted_items

PERIOD = 0.5  # seconds between two checks of the runs
HOPELESS = 3  # failed trials of this process, without any other, after which it gives up
TRIALS = 20  # unless --trials says another number; a grid has as many as it has places


@dataclass(frozen=True)
class SweepOptions:
    """A sweep.

    Attributes:
        config: path of the config file.
        dimensions: what differs among trials.
        overrides: words of the config that are the same in all trials.
        limits: limits of each run, by their names on the command line.
        saved_limits: the same, by the names of the parameters of the pipeline.
        seeds: a run of each trial for each; none: one, with the config's seed.
        trials: number of trials of the whole study; 0: `TRIALS`, or all places of a grid.
        jobs: trials of this process side by side.
        nproc: processes of each run.
        run_words: options of the command `train` for each run.
        resume_words: options of the command `resume` for each run.
        sampler: see `StudyOptions`.
        pruner: see `StudyOptions`.
        prune_after: see `StudyOptions`.
        score: 'best' or 'last' evaluation of a run.
        directory: where the runs and the results are; empty: named after the experiment.
        storage: a URL or the path of a journal; empty: a journal in the directory.
    """

    config: str
    dimensions: Sequence[Dimension]
    overrides: Sequence[str]
    limits: Mapping[str, int]
    saved_limits: dict[str, int]
    seeds: Sequence[int]
    trials: int
    jobs: int
    nproc: int
    run_words: Sequence[str]
    resume_words: Sequence[str]
    sampler: str
    pruner: str
    prune_after: int
    score: str
    directory: str
    storage: str


class Sweep:
    """A sweep that this process takes part in.

    Args:
        options: what to do.

    Raises:
        UserError: a key, a value or an option is not possible; nothing has been started.
    """

    def __init__(self, options: SweepOptions) -> None:
        load_optuna()  # if it is missing, that is the first error
        self._options = options
        self._dimensions = check_dimensions(options.dimensions, self._compile)
        first = self._compile({each.key: each.examples()[0] for each in self._dimensions})
        name = first.exp_name.rstrip("/").removesuffix(f"_seed{first.seed}")
        self._folder = Path(options.directory or f"{name}_sweep")
        tracker = first.tracker
        named = tracker.type is None or tracker.group is not None
        self._group = [] if named else [f"tracker.group={self._folder.resolve().name}"]
        self._seeds = list(options.seeds or [first.seed])
        self._trials = options.trials or TRIALS
        if options.sampler == "grid":
            places = len(grid(self._dimensions))
            self._trials = min(options.trials or places, places)
        how = (options.sampler, options.pruner, options.prune_after)
        storage = options.storage or str(self._folder / "journal.log")
        self._make_folder()
        self._study = SharedStudy(
            StudyOptions(self._folder.resolve().name, storage, self._dimensions, self._trials, *how),
            self._problem(first),
        )
        self._active: list[TrialRuns] = []
        self._failed, self._hopeful = 0, False

    def run(self) -> int:
        """Run trials until all of the study have ended, then write the outcome.

        Returns:
            The exit status: 0, or 1 if no trial was complete, or that of a signal.

        Raises:
            UserError: the first trials failed, or the storage does.
        """
        with passing_signals_on(lambda: [runs.process for runs in self._active if runs.process]) as signalled:
            try:
                self._run_trials(signalled)
            except self._study.failures as error:
                raise UserError(
                    f"The sweep's storage fails, so its runs were stopped: {hide_passwords(str(error))}. Repeat the "
                    "command to continue."
                ) from None
            finally:
                self._stop_runs()
            best = write_outcome(self._study, self._folder, self._compile, self._options.saved_limits)
        return 128 + signalled() if signalled() else int(not best)

    def _run_trials(self, signalled: Callable[[], int]) -> None:
        """Run trials until all of the study have ended, or a signal has arrived."""
        layout = "{n_fmt}/{total_fmt} trials, {elapsed} | {desc}"
        with tqdm(total=self._trials, bar_format=layout, dynamic_ncols=True, disable=not sys.stderr.isatty()) as bar:
            while True:
                while len(self._active) < self._options.jobs and not (signalled() or self._hopeless):
                    trial = self._study.claim()
                    if trial is None:
                        break
                    self._active.append(self._carry_out(trial))
                unfinished = [trial.number for trial in self._study.trials("RUNNING", "WAITING")]
                if not self._active and (signalled() or self._hopeless or not unfinished):
                    break
                self._leave_lost(unfinished)
                for runs, ending in [(runs, self._advance(runs, bool(signalled()))) for runs in self._active]:
                    if ending is not None:
                        self._active.remove(runs)
                        bar.write(_describe_end(runs, ending), file=sys.stderr)
                self._study.sign([runs.trial for runs in self._active])
                bar.n = len(self._study.trials()) - len(unfinished)
                bar.set_description_str(_describe_state(self._active, unfinished))
                time.sleep(PERIOD)
        if self._hopeless:
            raise UserError(f"The first {HOPELESS} trials failed, so the sweep ends: see the lines above.")

    @property
    def _hopeless(self) -> bool:
        return self._failed >= HOPELESS and not self._hopeful

    def _carry_out(self, trial: Any) -> TrialRuns:
        options, values = self._options, trial.params
        limits = [f"{key}={limit}" for key, limit in options.limits.items()]
        same = [*options.run_words, *self._group, *options.overrides, *to_words(values), *limits]
        side_by_side = options.jobs * options.nproc if options.jobs > 1 else 1
        return TrialRuns(
            trial,
            self._seeds,
            self._folder,
            find_marks(options.limits, options.score),
            lambda seed, path: ["train", "-c", options.config, "-s", str(seed), *same, f"exp_name={path}"],
            options.resume_words,
            lambda words: RunProcess(words, side_by_side),
        )

    def _leave_lost(self, unfinished: Sequence[int]) -> None:
        """Stop the runs of trials that others took over because this process gave no sign of life for too long."""
        for runs in [runs for runs in self._active if runs.trial.number not in unfinished]:
            self._active.remove(runs)
            runs.stop()
            print(f"trial {runs.trial.number} was taken over by another process", file=sys.stderr)

    def _advance(self, runs: TrialRuns, signalled: bool) -> Ending | None:
        """Let a trial continue, and tell the study if it has ended."""
        if signalled and runs.process is None:  # between two runs
            ending: Ending | None = Ending("INTERRUPTED")
        else:
            ending = runs.advance()
        if ending is None:
            return None
        if ending.state == "INTERRUPTED" or (signalled and ending.state == "FAIL"):
            self._study.retry(runs.trial)
            return Ending("INTERRUPTED")
        self._study.finish(runs.trial, ending.state, ending.value, ending.error)
        self._failed += ending.state == "FAIL"
        self._hopeful |= ending.state != "FAIL"
        return ending

    def _stop_runs(self) -> None:
        """Let the runs save and end, if an error has ended this process's part."""
        for runs in self._active:
            runs.stop(wait=False)
        for runs in self._active:
            runs.stop()

    def _compile(self, values: Mapping[str, Value], *words: str) -> Any:
        """Compile the config with values for the keys that differ among trials."""
        return compile_config(self._options.config, overrides=[*self._options.overrides, *to_words(values), *words])

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"Cannot make the sweep's directory '{self._folder}': {error.strerror}.") from None

    def _problem(self, first: Any) -> dict[str, Any]:
        """Return what all processes of the sweep must agree on."""
        others = ("exp_name", "seed", "notes", *(dimension.key for dimension in self._dimensions))
        known = {key: value for key, value in dotted_items(first) if key not in others}
        config = {key: value for key, value in known.items() if not key.startswith("tracker.")}
        return {
            "keys": {dimension.key: dimension.describe() for dimension in self._dimensions},
            "seeds": self._seeds,
            "limits": dict(self._options.limits),
            "score": self._options.score,
            "config": hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        }


def _describe_state(active: Sequence[TrialRuns], unfinished: Sequence[int]) -> str:
    """Return which trials run here, or what is waited for."""
    if active:
        return "; ".join(f"trial {runs.trial.number}" for runs in active)
    return f"waiting for trials of other processes: {', '.join(map(str, unfinished))}"


def _describe_end(runs: TrialRuns, ending: Ending) -> str:
    """Return a line about a trial that has ended."""
    what = {"COMPLETE": f"{ending.value or 0.0:.2f}", "FAIL": f"failed: {ending.error}"}
    return (
        f"trial {runs.trial.number} {what.get(ending.state, ending.state.lower())} ({show_values(runs.trial.params)})"
    )
