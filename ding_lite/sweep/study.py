"""The trials of a sweep in a storage of Optuna, which several processes and machines may share.

The number of trials is that of the whole study. An interrupted trial does not count: another one takes its values and
continues its runs.
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ding_lite.results.extras import load_extra
from ding_lite.sweep.owner import SIGN_OF_LIFE, Watch, identify
from ding_lite.sweep.scores import PARTS
from ding_lite.sweep.space import Dimension, Value
from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import UserError

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("median", "none")
LOCK_PATIENCE = 30  # seconds that another process may hold the lock of a journal; then it is presumed dead
WARM_UP = PARTS // 4  # marks of the first seed at which no trial is pruned
# Attributes of a trial
OWNER, SIGN, RUNS, ERROR, CONTINUES = "owner", "sign_of_life", "runs", "error", "continues"


@dataclass(frozen=True)
class StudyOptions:
    """How values are chosen.

    Attributes:
        name: the study's name in its storage.
        storage: a URL, or the path of a journal; `${NAME}` stands for an environment variable.
        dimensions: what differs among trials.
        trials: number of trials of the whole study.
        sampler: one of `SAMPLERS`.
        pruner: one of `PRUNERS`.
        prune_after: trials that must have ended before any is pruned.
    """

    name: str
    storage: str
    dimensions: Sequence[Dimension]
    trials: int
    sampler: str
    pruner: str
    prune_after: int


class SharedStudy:
    """A study that other processes may change at any time.

    Args:
        options: how values are chosen.
        problem: what is tried, as JSON; all processes that share the study must agree on it.

    Attributes:
        study: Optuna's object.

    Raises:
        UserError: Optuna is missing, the storage cannot be opened, or its study is about another problem.
    """

    def __init__(self, options: StudyOptions, problem: Mapping[str, Any]) -> None:
        self._optuna = load_optuna()
        self._options, self._watch, self._next_sign = options, Watch(), 0.0
        try:
            self.study = self._optuna.create_study(
                study_name=options.name,
                storage=self._open_storage(fill_in(options.storage)),
                sampler=self._sampler(),
                pruner=self._pruner(),
                direction="maximize",
                load_if_exists=True,
            )
            self._check_problem(problem)
        except UserError:
            raise
        except Exception as error:  # each database has its own errors
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                hide_passwords(f"Cannot open the storage '{options.storage}': {text[0].rstrip('.')}.")
                + " Give the URL of a database, such as sqlite:///sweep.db, or the path of a journal file."
            ) from None

    def trials(self, *states: str) -> list[Any]:
        """Return the trials that count, in the order of their numbers; only those in the given states, if any."""
        found = self.study.get_trials(deepcopy=False)
        counting = [trial for trial in found if trial.state.name != "FAIL" or ERROR in trial.user_attrs]
        return [trial for trial in counting if not states or trial.state.name in states]

    def claim(self) -> Any:
        """Return a trial for this process; None if all have been taken.

        Trials whose process has died come first, and are tried again.
        """
        self._retry_abandoned()
        counting = self.trials()
        waiting = any(trial.state.name == "WAITING" for trial in counting)
        if not waiting and len(counting) >= self._options.trials:
            return None
        if not waiting and self._options.sampler == "grid":
            values = next(iter(self._untried(counting)), None)
            if values is None:
                return None
            self.study.enqueue_trial(values)
        trial = self.study.ask({each.key: self._distribution(each) for each in self._options.dimensions})
        trial.set_user_attr(OWNER, identify())
        if self._is_surplus(trial.number):
            self.drop(trial)
            return None
        return trial

    def sign(self, trials: Sequence[Any]) -> None:
        """Tell other machines that the owner of these trials is alive."""
        if time.monotonic() >= self._next_sign:
            self._next_sign = time.monotonic() + SIGN_OF_LIFE
            for trial in trials:
                trial.set_user_attr(SIGN, time.time())

    def drop(self, trial: Any) -> None:
        """End a trial so that it does not count: it fails without an error."""
        self.study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def retry(self, trial: Any) -> None:
        """End a trial that was interrupted, and let another one continue its runs."""
        values, attributes = trial.params, trial.user_attrs
        self.drop(trial.number)
        kept = {CONTINUES: attributes.get(CONTINUES, trial.number), RUNS: attributes.get(RUNS, {})}
        self.study.enqueue_trial(dict(values), user_attrs=kept)

    def finish(self, trial: Any, state: str, value: float | None = None, error: str = "") -> None:
        """End a trial.

        Args:
            trial: the trial.
            state: COMPLETE, PRUNED or FAIL.
            value: its score, if it is complete.
            error: why it failed.
        """
        if error:
            trial.set_user_attr(ERROR, error)
        self.study.tell(trial, value, self._optuna.trial.TrialState[state])

    def _retry_abandoned(self) -> None:
        """Let other trials continue the runs of those whose owners are dead."""
        for trial in self.trials("RUNNING"):
            owner, sign = trial.user_attrs.get(OWNER, {}), trial.user_attrs.get(SIGN, str(trial.datetime_start))
            if self._watch.is_dead(trial.number, owner, sign) and len(trial.params) == len(self._options.dimensions):
                with suppress(ValueError, self.finished_elsewhere):  # several processes may notice; the first one wins
                    self.retry(trial)

    @property
    def finished_elsewhere(self) -> type[Exception]:
        """The error of changing a trial that another process has ended."""
        return self._optuna.exceptions.UpdateFinishedTrialError

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The errors of a storage that cannot be read or written."""
        return (OSError, self._optuna.exceptions.StorageInternalError)

    def _is_surplus(self, number: int) -> bool:
        """Return whether two processes took the last trial, or the same place of a grid, and this is the later one."""
        counting = sorted(self.trials(), key=_root)
        place = next(k for k, trial in enumerate(counting) if trial.number == number)
        values = [_values(trial) for trial in counting[: place + 1]]
        return place >= self._options.trials or (self._options.sampler == "grid" and values[-1] in values[:-1])

    def _untried(self, trials: Sequence[Any]) -> Iterator[dict[str, Value]]:
        """Yield the places of the grid that no trial has."""
        taken = [_values(trial) for trial in trials]
        for values in grid(self._options.dimensions):
            if values not in taken:
                yield values

    def _distribution(self, dimension: Dimension) -> Any:
        kinds = self._optuna.distributions
        if dimension.choices:
            return kinds.CategoricalDistribution(dimension.choices)
        low, high = dimension.number(dimension.low), dimension.number(dimension.high)
        if dimension.whole:
            return kinds.IntDistribution(low, high, log=dimension.log, step=int(dimension.step or 1))
        return kinds.FloatDistribution(low, high, log=dimension.log, step=dimension.step)

    def _sampler(self) -> Any:
        samplers = self._optuna.samplers
        if self._options.sampler == "tpe":
            return samplers.TPESampler(constant_liar=True)  # so that simultaneous trials try different values
        return samplers.RandomSampler()

    def _pruner(self) -> Any:
        pruners = self._optuna.pruners
        if self._options.pruner == "none":
            return pruners.NopPruner()
        return pruners.MedianPruner(n_startup_trials=self._options.prune_after, n_warmup_steps=WARM_UP)

    def _open_storage(self, storage: str) -> Any:
        """Open a database by its URL, or a journal by its path."""
        if "://" in storage:
            return self._optuna.storages.RDBStorage(storage)
        journal = self._optuna.storages.journal
        path = Path(storage)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not a symbolic link: a relative one leads nowhere, and then Optuna never takes the lock of a dead owner.
        lock = journal.JournalFileOpenLock(str(path), LOCK_PATIENCE)
        _remove_half_line(path, lock)
        return self._optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock))

    def _check_problem(self, problem: Mapping[str, Any]) -> None:
        """Record the problem, or compare it with that of the study.

        Raises:
            UserError: it is another one.
        """
        own = json.loads(json.dumps(problem))
        before = self.study.user_attrs
        changed = [key for key in own if key in before and before[key] != own[key]]
        if changed:
            key = changed[0]
            what = (
                f"{key} {_short(before[key])}, and now has {_short(own[key])}" if key != "config" else "another config"
            )
            raise UserError(
                f"The sweep '{self._options.name}' was started with {what}: repeat its command to continue it, or "
                "start another one with -o DIR."
            )
        for key, value in own.items():
            if key not in before:
                self.study.set_user_attr(key, value)


def load_optuna() -> Any:
    """Return the package, without its messages about every trial.

    Raises:
        UserError: it is not installed.
    """
    optuna = load_extra("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", module="optuna")
    return optuna


def grid(dimensions: Sequence[Dimension]) -> list[dict[str, Value]]:
    """Return all combinations of the values of some dimensions."""
    keys = [dimension.key for dimension in dimensions]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(each.grid() for each in dimensions))]


def directory_number(trial: Any) -> int:
    """Return the number in the names of a trial's runs: that of the trial which it continues, or its own."""
    number = trial.user_attrs.get(CONTINUES)
    return number if isinstance(number, int) else trial.number


def _root(trial: Any) -> tuple[int, int]:
    return directory_number(trial), trial.number


def _values(trial: Any) -> Mapping[str, Any]:
    """Return the values of a trial, even of one that was added and has not begun."""
    return trial.system_attrs.get("fixed_params", trial.params)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _remove_half_line(path: Path, lock: Any) -> None:
    """Remove what a full disk or a crash has left after the last complete line of a journal.

    Optuna refuses a journal in which something follows half a line.
    """
    if not path.exists():
        return
    lock.acquire()
    try:
        with open(path, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    finally:
        lock.release()
