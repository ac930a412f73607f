"""The trials of a sweep: the values that they may have, and their study, in a storage that several machines may share.

The words of the command say which keys differ: `key=low..high` is a range of numbers, with `:log`, `:int` or a step
such as `:0.1` after it; `key=a,b,c` is a choice. Every other word `key=value` is the same in all trials.

A trial that is interrupted, or whose process gives no heartbeat, fails without an error and does not count. A trial
with its values and attributes is queued in its place, and continues its runs.
"""

from __future__ import annotations

import ast
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file
from optuna.trial import FrozenTrial, Trial, TrialState

from ding_lite.utils.passwords import fill_in, hide_passwords
from ding_lite.utils.registry import ConfigError, UserError

HEARTBEAT, GRACE = 15, 60  # seconds between heartbeats, and without one until a trial is queued again
LOCK_PATIENCE = 30  # seconds that another process may hold the lock of a journal; then it is presumed dead
UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)
RUNS, ERROR = "runs", "error"  # attributes of a trial
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})((?::[^:]*)*)")
FORM = "low..high with :log, :int or a step, such as 1e-4..1e-2:log, 1..5:int and 0.5..0.9:0.1"
UNSWEPT = ("exp_name", "seed", "max_env_step", "max_train_iter")
Value = bool | int | float | str | None
Distribution = CategoricalDistribution | FloatDistribution | IntDistribution
Space = dict[str, Distribution]  # by dotted keys of the config


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

    def claim(self, space: Space, limit: int, distinct: bool = False) -> Trial | None:
        """Return a trial for this process, one that was interrupted if there is any; None if `limit` have been taken.

        `distinct`: no two trials may have the same values.
        """
        optuna.storages.fail_stale_trials(self)
        counting = self.count()
        if len(counting) >= limit and all(trial.state != TrialState.WAITING for trial in counting):
            return None
        trial = self.ask(dict(space))
        self._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]  # until its own thread does
        # Two processes may have taken the last trial, or the same values; the later one drops it.
        counting = sorted(self.count(), key=lambda each: (first_number(each), each.number))
        place = [each.number for each in counting].index(trial.number)
        if place < limit and not (distinct and trial.params in [_values(each) for each in counting[:place]]):
            return trial
        self.tell(trial, state=TrialState.FAIL)
        return None

    def retry(self, trial: Trial) -> None:
        """End a trial that was interrupted, and queue one that continues its runs."""
        with suppress(ValueError, optuna.exceptions.UpdateFinishedTrialError):  # another process has done so
            self.tell(trial, state=TrialState.FAIL)
            RetryHeartbeatStaleTrialCallback()(self, self.trials[trial.number])

    def stop(self) -> None:
        """Do nothing: the sampler of a grid calls it when all points are taken, and `claim` returns None then."""


def open_study(storage: str, problem: Mapping[str, Any], **options: Any) -> SharedStudy:
    """Create a study with Optuna's `options`, or open it if it exists. All its processes must agree on the `problem`.

    `storage` is the URL of a database, or the path of a journal; `${NAME}` stands for an environment variable.
    """
    filled = fill_in(storage)
    try:
        retry = RetryHeartbeatStaleTrialCallback()
        database = partial(RDBStorage, heartbeat_stale_trial_callback=retry, heartbeat_interval=HEARTBEAT)
        opened = database(filled, grace_period=GRACE) if "://" in filled else _open_journal(Path(filled))
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
    check_problem(study.study_name, before, problem)
    return study


def check_problem(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that a sweep that began with the problem `before` may go on with that of `now`."""
    for key in (key for key in now if before.get(key, now[key]) != now[key]):
        raise UserError(
            f"The sweep '{name}' was started with {key} {before[key]}, and now has {now[key]}: repeat its command to "
            "continue it, or start another one with -o DIR."
        )


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


def read_words(words: Sequence[str]) -> tuple[Space, list[str]]:
    """Return what differs among trials, and the words that are the same in all of them."""
    space, same, seen = Space(), list[str](), list[str]()
    for word in words:
        key, _, text = word.partition("=")
        key = "policy.type" if key == "policy" else key
        distribution = _read_range(key, text) or _read_choice(key, text)
        if key in seen and (distribution or key in space):
            raise ConfigError(f"{key} is given twice: leave out one of the words.")
        seen.append(key)
        if distribution is None:
            same.append(word)
        elif key in UNSWEPT:
            raise ConfigError(f"A sweep cannot vary {key}: see the options -o and -s, and give one limit.")
        else:
            space[key] = distribution
    if not space:
        raise ConfigError(f"A sweep needs a key that differs: a list such as key=32,64, or {FORM}.")
    return space, same


def _read_choice(key: str, text: str) -> Distribution | None:
    """Return a choice, None if the text is one value. Lists and dicts stay strings, which the config parses again."""
    source, values = f"({text},)", list[Value]()
    try:  # commas inside brackets and quotes separate nothing
        elements: Any = ast.parse(source, mode="eval").body
        choices = [ast.get_source_segment(source, element) or "" for element in elements.elts]
    except (SyntaxError, ValueError):
        choices = [part.strip() for part in text.split(",")]
    for choice in choices:
        try:
            value = ast.literal_eval(choice)
        except (ValueError, SyntaxError):
            value = choice
        values.append(value if isinstance(value, bool | int | float | None) else choice)
    if len(values) > 1 and ("" in choices or len(set(map(repr, values))) < len(values)):
        raise ConfigError(f"{key}: expected different values between the commas, got '{text}'.")
    return CategoricalDistribution(values) if len(values) > 1 else None


def _read_range(key: str, text: str) -> Distribution | None:
    """Return a range, None if the text does not look like one."""
    match = RANGE.fullmatch(text)
    if match is None:
        return None
    low, high, options = float(match[1]), float(match[2]), match[3].split(":")[1:]
    steps = [float(option) for option in options if re.fullmatch(NUMBER, option)]
    names = [option for option in options if not re.fullmatch(NUMBER, option)]
    if low >= high:
        turned = "" if low == high else f": write {key}={match[2]}..{match[1]}{match[3]}"
        raise ConfigError(f"{key}: a range begins with its lower end, got '{text}'{turned}.")
    form = len(steps) < 2 and {"log", "int"}.issuperset(names) and high < math.inf
    fits = all(step <= high - low for step in steps)
    if not (form and fits) or ("int" in names and not all(value.is_integer() for value in (low, high, *steps))):
        raise ConfigError(f"{key}: expected {FORM}, got '{text}'.")
    step = steps[0] if steps else None
    try:
        if "int" in names:
            return IntDistribution(int(low), int(high), "log" in names, int(step or 1))
        return FloatDistribution(low, high, "log" in names, step)
    except ValueError as error:
        raise ConfigError(f"{key}={text}: {error}") from None


def examples(distribution: Distribution) -> list[Value]:
    """Return all choices, or both ends of a range."""
    if isinstance(distribution, CategoricalDistribution):
        return list(distribution.choices)
    return [distribution.low, distribution.high]


def first_values(space: Space) -> dict[str, Value]:
    """Return one possible value of each key."""
    return {key: examples(distribution)[0] for key, distribution in space.items()}


def check_space(space: Space, compiles: Callable[[Mapping[str, Value]], object]) -> Space:
    """Compile the config with every choice and with both ends of every range, and first values for the other keys.

    A range of whole numbers becomes one of integers if the key takes no fraction.
    """
    checked = dict(space)
    for key, kind in space.items():
        if isinstance(kind, FloatDistribution) and all(x.is_integer() for x in (kind.low, kind.high, kind.step or 0.0)):
            try:
                compiles({**first_values(checked), key: kind.low + 0.5})
            except ConfigError:
                checked[key] = IntDistribution(int(kind.low), int(kind.high), kind.log, int(kind.step or 1))
    for key, distribution in checked.items():
        for value in examples(distribution):
            compiles({**first_values(checked), key: value})
    return checked


def count_points(space: Space) -> int:
    """Return the number of all combinations of the values of the keys."""
    number = 1
    for key, kind in space.items():
        if isinstance(kind, CategoricalDistribution):
            number *= len(kind.choices)
        elif kind.step is None:
            raise ConfigError(f"{key}: a grid needs a list such as 0.001,0.01 or a step, not a range of all numbers.")
        else:
            number *= round((kind.high - kind.low) / kind.step) + 1  # Optuna has moved `high` to the last step
    return number


def to_words(values: Mapping[str, Value]) -> list[str]:
    """Return values as words `key=value` of the command line."""
    return [f"{key}={value}" for key, value in values.items()]
