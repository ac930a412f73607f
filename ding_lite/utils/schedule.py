"""Schedules: numbers of the config that change during a run.

A dict takes the place of the number, such as `dict(type="linear", start=1e-3, end=1e-4, over=100000, by="env_step")`.
The number is a function of a count that is the same on all ranks, so all ranks use the same number, and so does a run
that was resumed. With x = min(count / over, 1) it is

    linear:       start + (end - start) x
    cosine:       start + (end - start) (1 - cos(pi x)) / 2
    exponential:  start (end / start)^x
    piecewise:    linear between the two neighbours among `points`, pairs of a count and a number that are ordered by
                  the counts; the first number before them, the last number after them

The count `by` is one of

    env_step:   env steps of all ranks before the current collect
    iteration:  learner iterations before the current one
    collect:    collects before the current one
"""

from __future__ import annotations

import bisect
import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from easydict import EasyDict

from ding_lite.utils.key import Key, matches, show_value
from ding_lite.utils.registry import ConfigError, closest

UNITS = {"env_step": "env steps", "iteration": "learner iterations", "collect": "collects"}
SPAN = ("start", "end", "over", "by")
FIELDS = {"linear": SPAN, "cosine": SPAN, "exponential": SPAN, "piecewise": ("points", "by")}
SECTIONS = ("learn", "collect", "eval")  # sections of `policy` whose numbers may be schedules, as may those in none
# Beginnings of the keys that losses do not read; only these may change if losses are compiled.
OUTSIDE_LOSSES = (
    *("collect.", "eval.", "learn.learning_rate", "learn.weight_decay", "learn.adam_eps", "learn.momentum"),
    *("learn.grad_clip_value", "learn.target_theta"),
)


class Scheduled(float):
    """The number that a schedule has while a policy is built.

    It is an ordinary number, and as a function it returns the number at the time of the call. An optimizer with it as
    an option therefore follows the schedule, see `Trained` in `torch_utils/optimizer.py`.
    """

    _current: Callable[[], float]

    def __new__(cls, number: float, current: Callable[[], float]) -> Scheduled:
        """Create the number.

        Args:
            number: the number now.
            current: returns the number at any later time.
        """
        self = super().__new__(cls, number)
        self._current = current
        return self

    def __call__(self, steps: int) -> float:
        """Return the current number; `steps`, a number of optimizer steps, has no effect."""
        return self._current()


def number_at(schedule: Mapping[str, Any], count: int) -> float:
    """Return the number that a schedule has at a count.

    Args:
        schedule: a schedule that `check_schedule` has accepted.
        count: the count that `schedule["by"]` names, at least 0.
    """
    if schedule["type"] == "piecewise":
        counts, numbers = zip(*schedule["points"], strict=True)
        after = bisect.bisect_right(counts, count)
        if after in (0, len(counts)):
            return float(numbers[max(after - 1, 0)])
        start, end = numbers[after - 1], numbers[after]
        return float(start + (end - start) * (count - counts[after - 1]) / (counts[after] - counts[after - 1]))
    start, end, x = schedule["start"], schedule["end"], count / schedule["over"]
    if x >= 1.0:
        return float(end)
    if schedule["type"] == "exponential":
        return float(start * (end / start) ** x)
    share = (1.0 - math.cos(math.pi * x)) / 2.0 if schedule["type"] == "cosine" else x
    return float(start + (end - start) * share)


def numbers_of(schedule: Mapping[str, Any]) -> list[Any]:
    """Return the numbers that a schedule contains; all others that it reaches are between these."""
    if schedule["type"] == "piecewise":
        return [number for _, number in schedule["points"]]
    return [schedule["start"], schedule["end"]]


def is_schedule(path: str, key: Key, value: Any) -> bool:
    """Return whether the value of a config key is meant as a schedule: a dict where a number is expected.

    Where a whole number is expected, which cannot change, only a dict with all fields of a schedule is meant as one.

    Args:
        path: dotted name of the key, which begins with 'policy.'.
        key: the declaration of the key.
        value: its value.
    """
    if not isinstance(value, Mapping) or not path.startswith("policy.") or key.choices or matches({}, key.hint):
        return False
    return matches(0.5, key.hint) or (matches(1, key.hint) and has_fields(value))


def has_fields(value: Any) -> bool:
    """Return whether a value has a type of a schedule and all fields of this type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return isinstance(kind, str) and kind in FIELDS and set(FIELDS[kind]) <= value.keys()


def why_constant(path: str, key: Key) -> str:
    """Return why a number cannot change during a run; empty if it can.

    Args:
        path: dotted name of the key, which begins with 'policy.'.
        key: the declaration of the key.
    """
    if isinstance(key.constant, str):
        return key.constant
    if not matches(0.5, key.hint):
        return "it is a whole number"
    _, *sections, _ = path.split(".")
    fixed = key.constant or (sections and sections[0] not in SECTIONS)
    return "it is only read when the run is built" if fixed else ""


def check_schedule(path: str, key: Key, schedule: Mapping[str, Any]) -> None:
    """Check a schedule.

    Args:
        path: dotted name of the key, for the message.
        key: the declaration of the key; every number of the schedule must be allowed by it.
        schedule: the value of the key.

    Raises:
        ConfigError: the key cannot change during a run, or the schedule has a mistake.
    """
    if reason := why_constant(path, key):
        raise ConfigError(
            f"{path} cannot change during a run, because {reason}: expected a number, got {show_value(dict(schedule))}."
        )
    kind, by = _check_fields(path, schedule)
    if kind == "piecewise":
        _check_points(f"{path}.points", schedule["points"], UNITS[by])
    elif not (matches(schedule["over"], float) and 0 < schedule["over"] < math.inf):
        raise ConfigError(f"{path}.over: expected a number of {UNITS[by]} above 0, got {show_value(schedule['over'])}.")
    for number in numbers_of(schedule):
        if not (matches(number, float) and math.isfinite(number)):
            raise ConfigError(f"{path}: expected finite numbers in its schedule, got {show_value(number)}.")
        key.check(path, number)
        if kind == "exponential" and number <= 0:
            raise ConfigError(
                f"{path}: an exponential schedule needs numbers above 0, got {number}: choose 'linear' or 'cosine'."
            )


def _check_fields(path: str, schedule: Mapping[str, Any]) -> tuple[str, str]:
    """Check that a schedule has the fields of its type and no others; return its type and its count."""
    kind = schedule.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        kinds = ", ".join(f"'{name}'" for name in FIELDS)
        raise ConfigError(f"{path}.type: expected a number, or a schedule of one of the types {kinds}, got {kind!r}.")
    needs = f"a schedule of type '{kind}' has the fields type, {', '.join(FIELDS[kind])}"
    for name in FIELDS[kind]:
        if name not in schedule:
            raise ConfigError(f"{path}.{name} is missing: {needs}.")
    for name in schedule:
        if name not in ("type", *FIELDS[kind]):
            raise ConfigError(f"Unknown key '{path}.{name}': {needs}.{closest(name, FIELDS[kind])}")
    if schedule["by"] not in tuple(UNITS):
        names = ", ".join(f"'{name}'" for name in UNITS)
        raise ConfigError(f"{path}.by: expected one of {names}, got {schedule['by']!r}.")
    return kind, schedule["by"]


def _check_points(path: str, points: Any, unit: str) -> None:
    pairs = isinstance(points, list) and len(points) > 1 and all(matches(pair, list[float]) for pair in points)
    if not pairs or any(len(pair) != 2 for pair in points):
        raise ConfigError(
            f"{path}: expected at least two pairs [{unit}, number], such as [[0, 0.1], [1000, 0.01]], got "
            f"{show_value(points)}."
        )
    counts = [pair[0] for pair in points]
    if any(not first < second for first, second in itertools.pairwise(counts)) or counts[0] < 0:
        raise ConfigError(f"{path}: expected {unit} from 0 on in increasing order, got {show_value(counts)}.")


def find_schedules(policy: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Mapping[str, Any]]:
    """Return the schedules of a compiled `cfg.policy` by the dotted names of their keys, without 'policy.'.

    Args:
        policy: the compiled `cfg.policy`.
        keys: what the class of the policy declares, see `declared_keys`.
    """
    found = {}
    for path, key in keys.items():
        if not why_constant(f"policy.{path}", key):
            section, last = _section(policy, path)
            if is_schedule(f"policy.{path}", key, section.get(last)):
                found[path] = section[last]
    return found


def with_numbers(policy: EasyDict, numbers: Mapping[str, float]) -> EasyDict:
    """Return a copy of `cfg.policy` in which keys have other values.

    Args:
        policy: the compiled `cfg.policy`. Of its sections, only those that may contain schedules are copied.
        numbers: the new values by dotted name.
    """
    changed = EasyDict({**policy, **{name: copy.deepcopy(policy[name]) for name in SECTIONS if name in policy}})
    for path, number in numbers.items():
        set_number(changed, path, number)
    return changed


def get_number(policy: Mapping[str, Any], path: str) -> float:
    """Return the number of a key of `cfg.policy`, given by its dotted name."""
    section, last = _section(policy, path)
    number: float = section[last]
    return number


def set_number(policy: Mapping[str, Any], path: str, number: float | Mapping[str, Any]) -> None:
    """Set a key of `cfg.policy`, given by its dotted name, to a number or a schedule."""
    section, last = _section(policy, path)
    section[last] = number


def extremes(policy: EasyDict, keys: Mapping[str, Key]) -> Iterator[EasyDict]:
    """Yield `cfg.policy` with the first, and then with the last, number of every schedule; itself if it has none.

    These numbers are `Scheduled`, so that a check can see where there is a schedule.

    Args:
        policy: the compiled `cfg.policy`.
        keys: what the class of the policy declares, see `declared_keys`.
    """
    schedules = find_schedules(policy, keys)
    if not schedules:
        yield policy
        return
    for place in (0, -1):
        numbers = {path: float(numbers_of(schedule)[place]) for path, schedule in schedules.items()}
        yield with_numbers(
            policy, {path: Scheduled(number, partial(float, number)) for path, number in numbers.items()}
        )


def _section(policy: Mapping[str, Any], path: str) -> tuple[Any, str]:
    """Return the section that has a key, and the last part of the key's dotted name."""
    *sections, last = path.split(".")
    for name in sections:
        policy = policy.get(name, {})
    return policy, last
