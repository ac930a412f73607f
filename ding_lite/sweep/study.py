"""The trials of a sweep in a storage of Optuna, which several processes and machines may share.

A trial that is interrupted, or whose process gives no heartbeat, fails without an error and does not count. A trial
with its values and attributes is queued in its place, and continues its runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file
from optuna.trial import FrozenTrial, Trial, TrialState

from ding_lite.sweep.space import Space, Value
from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import UserError

HEARTBEAT, GRACE = 15, 60  # seconds between heartbeats, and without one until a trial is queued again
LOCK_PATIENCE = 30  # seconds that another process may hold the lock of a journal; then it is presumed dead
UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)
RUNS, ERROR = "runs", "error"  # attributes of a trial


class HeartbeatJournal(JournalStorage, BaseHeartbeat):
    """A journal with heartbeats, which Optuna gives to databases only.

    The clocks of two machines may differ, so what counts is for how long a heartbeat has not changed.
    """

    def __init__(self, backend: JournalFileBackend) -> None:
        super().__init__(backend)
        self._seen: dict[tuple[int, Any], float] = {}  # when each heartbeat of a trial was seen first

    def record_heartbeat(self, trial_id: int) -> None:
        with suppress(optuna.exceptions.UpdateFinishedTrialError, OSError):  # the next report fails too
            self.set_trial_system_attr(trial_id, "heartbeat", time.time())

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        now, running = time.monotonic(), self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        beats = [(trial._trial_id, trial.system_attrs.get("heartbeat")) for trial in running]
        return [beat[0] for beat in beats if now - self._seen.setdefault(beat, now) > GRACE]

    def get_heartbeat_interval(self) -> int:
        return HEARTBEAT

    def get_heartbeat_stale_trial_callback(self) -> Callable[[optuna.Study, FrozenTrial], None]:
        return RetryHeartbeatStaleTrialCallback()


class SharedStudy(optuna.Study):
    """A study that other processes may change at any time."""

    def count(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials that count, in the order of their numbers; only those in the given states, if any."""
        found = self.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in found if trial.state != TrialState.FAIL or ERROR in trial.user_attrs]

    def claim(self, space: Space, limit: int, grid: Sequence[Mapping[str, Value]]) -> Trial | None:
        """Return a trial for this process, one that was interrupted if there is any; None if all have been taken.

        The study has `limit` trials, of the values in `grid` or, if it is empty, of values that the sampler chooses.
        """
        optuna.storages.fail_stale_trials(self)
        counting = self.count()
        if all(trial.state != TrialState.WAITING for trial in counting):
            taken = [_values(trial) for trial in counting]
            untried = next((values for values in grid if values not in taken), None)
            if len(counting) >= limit or (grid and not untried):
                return None
            if untried:
                self.enqueue_trial(dict(untried))
        trial = self.ask(dict(space))
        self._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]  # until its own thread does
        # Two processes may have taken the last trial, or the same place of the grid; the later one drops it.
        counting = sorted(self.count(), key=lambda each: (first_number(each), each.number))
        place = [each.number for each in counting].index(trial.number)
        if place < limit and not (grid and _values(counting[place]) in map(_values, counting[:place])):
            return trial
        self.tell(trial, state=TrialState.FAIL)
        return None

    def retry(self, trial: Trial) -> None:
        """End a trial that was interrupted, and queue one that continues its runs."""
        with suppress(ValueError, optuna.exceptions.UpdateFinishedTrialError):  # another process has done so
            self.tell(trial, state=TrialState.FAIL)
            RetryHeartbeatStaleTrialCallback()(self, self.trials[trial.number])


def open_study(storage: str, problem: Mapping[str, Any], **options: Any) -> SharedStudy:
    """Create a study with Optuna's `options`, or open it if it exists. All its processes must agree on the `problem`.

    `storage` is the URL of a database, or the path of a journal; `${NAME}` stands for an environment variable.
    """
    filled = fill_in(storage)
    try:
        opened = _open_database(filled) if "://" in filled else _open_journal(Path(filled))
        optuna.create_study(storage=opened, direction="maximize", load_if_exists=True, **options)
        study = SharedStudy(storage=opened, **options)
        before = study.user_attrs
        for key in problem.keys() - before.keys():
            study.set_user_attr(key, problem[key])
    except Exception as error:  # each database has its own errors
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            hide_passwords(f"Cannot open the storage '{storage}': {text[0].rstrip('.')}.")
            + " Give the URL of a database, such as sqlite:///sweep.db, or the path of a journal file."
        ) from None
    for key in (key for key in problem if before.get(key, problem[key]) != problem[key]):
        raise UserError(
            f"The sweep '{study.study_name}' was started with {key} {before[key]}, and now has {problem[key]}: repeat "
            "its command to continue it, or start another one with -o DIR."
        )
    return study


def _open_database(url: str) -> RDBStorage:
    retry = RetryHeartbeatStaleTrialCallback()
    return RDBStorage(url, heartbeat_interval=HEARTBEAT, grace_period=GRACE, heartbeat_stale_trial_callback=retry)


def _open_journal(path: Path) -> HeartbeatJournal:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not a symbolic link: a relative one leads nowhere, and then Optuna never takes the lock of a dead owner.
    lock = JournalFileOpenLock(str(path), LOCK_PATIENCE)
    # A full disk or a crash may have left half a line, and Optuna refuses a journal in which something follows it.
    with get_lock_file(lock), open(path, "ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    return HeartbeatJournal(JournalFileBackend(str(path), lock))


def first_number(trial: FrozenTrial) -> int:
    """Return the number of the first trial that a trial repeats, or its own."""
    number = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return number if isinstance(number, int) else trial.number


def _values(trial: FrozenTrial) -> Mapping[str, Value]:
    """Return the values of a trial, even of one that was added and has not begun."""
    return trial.system_attrs.get("fixed_params", trial.params)
