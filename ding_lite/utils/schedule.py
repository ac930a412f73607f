"""Schedules: numbers of the config that change during a run.

A dict takes the place of the number, such as `dict(type="linear", start=1e-3, end=1e-4, over=100000, by="env_step")`.
The number is a function of a count that is the same on all ranks, so all ranks use the same number, and so does a run
that was resumed. With x = min(count / over, 1) it is

    linear:       start + (end - start) x
    cosine:       start + (end - start) (1 - cos(pi x)) / 2
    exponential:  start (end / start)^x
    exp:          end + (start - end) exp(-count / over); it never reaches `end`
    piecewise:    linear between the two neighbours among `points`, pairs of a count and a number that are ordered by
                  the counts; the first number before them, the last number after them

The count `by` is one of

    env_step:   env steps of all ranks before the current collect
    iteration:  learner iterations before the current one
    collect:    collects before the current one

Every number that changes during a run as a function of a count is a `Schedule`. DI-engine's keys are read into it:
`lr_scheduler` and `clip_scheduler` when the config compiles (`di_engine/translation.py`), `other.eps` by
`rl_utils.epsilon_at`, and the `beta` of prioritised replay, whose count is the number of batches drawn.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ding_lite.utils.key import declared_keys, get_key, is_schedule, why_constant


@dataclass(frozen=True)
class Schedule:
    """A number as a function of a count, with the fields of the config's dict. It has no state."""

    type: str
    start: float = 0.0
    end: float = 0.0
    over: float = 1.0
    by: str = ""
    points: Sequence[Sequence[float]] = ()

    def at(self, count: int) -> float:
        """Return the number at a count, which is at least 0."""
        if self.type == "piecewise":
            counts, numbers = zip(*self.points, strict=True)
            after = bisect.bisect_right(counts, count)
            if after in (0, len(counts)):
                return float(numbers[max(after - 1, 0)])
            start, end, x = numbers[after - 1], numbers[after], count - counts[after - 1]
            return float(start + (end - start) * x / (counts[after] - counts[after - 1]))
        start, end, x = self.start, self.end, count / self.over
        if self.type == "exp":
            return end + (start - end) * math.exp(-x)
        if x >= 1.0:
            return float(end)
        if self.type == "exponential":
            return float(start * (end / start) ** x)
        share = (1.0 - math.cos(math.pi * x)) / 2.0 if self.type == "cosine" else x
        return float(start + (end - start) * share)

    @property
    def numbers(self) -> list[Any]:
        """The numbers that it contains; all others that it reaches are between these."""
        return [number for _, number in self.points] if self.type == "piecewise" else [self.start, self.end]


class Scheduled(float):
    """The number that a schedule has while a policy is built.

    It is an ordinary number, and `current()` returns the number at the time of the call. What keeps a number, such as
    an optimizer, a target network or a replay buffer, follows a schedule in this way. An optimizer also follows a
    tensor that changes in place.
    """

    current: Callable[[], Any]

    def __new__(cls, number: float, current: Callable[[], Any]) -> Scheduled:
        """Create the number."""
        self = super().__new__(cls, number)
        self.current = current
        return self


def find_schedules(policy: Mapping[str, Any], policy_cls: type) -> dict[str, Schedule]:
    """Return the schedules of a compiled `cfg.policy` by the dotted names of their keys, without 'policy.'."""
    keys = declared_keys(policy_cls)
    values = {path: get_key(policy, path) for path, key in keys.items() if not why_constant(f"policy.{path}", key)}
    return {
        path: Schedule(**value) for path, value in values.items() if is_schedule(f"policy.{path}", keys[path], value)
    }
