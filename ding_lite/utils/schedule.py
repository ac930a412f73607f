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
`lr_scheduler` and `clip_scheduler` when the config compiles (`config/compat.py`), `other.eps` by
`rl_utils.epsilon_at`, and the `beta` of prioritised replay, whose count is the number of batches drawn.
"""

from __future__ import annotations

import bisect
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from easydict import EasyDict

from ding_lite.utils.key import SECTIONS, declared_keys, get_key, is_schedule, set_key, why_constant

# Beginnings of the keys that losses do not read.
OUTSIDE_LOSSES = (
    *("collect.", "eval.", "learn.learning_rate", "learn.weight_decay", "learn.adam_eps", "learn.momentum"),
    *("learn.grad_clip_value", "learn.target_theta"),
)


@dataclass(frozen=True)
class Schedule:
    """A number as a function of a count. It has no state: what counts keeps the count.

    The attributes are the fields of the config's dict, see the docstring of this module.
    """

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
    an optimizer, a target network or a replay buffer, follows a schedule in this way.
    """

    current: Callable[[], float]

    def __new__(cls, number: float, current: Callable[[], float]) -> Scheduled:
        """Create the number."""
        self = super().__new__(cls, number)
        self.current = current
        return self


def current_number(number: float) -> float:
    """Return the current number of a schedule if `number` is `Scheduled`; otherwise `number` itself."""
    return number.current() if isinstance(number, Scheduled) else number


def find_schedules(policy: Mapping[str, Any], policy_cls: type) -> dict[str, Schedule]:
    """Return the schedules of a compiled `cfg.policy` by the dotted names of their keys, without 'policy.'."""
    keys = declared_keys(policy_cls)
    values = {path: get_key(policy, path) for path, key in keys.items() if not why_constant(f"policy.{path}", key)}
    return {
        path: Schedule(**value) for path, value in values.items() if is_schedule(f"policy.{path}", keys[path], value)
    }


class Schedules:
    """The schedules of one policy, and the counts that they depend on.

    A policy reads its config when it needs a number: `self._cfg.learn.clip_ratio`. That config is the policy's own
    copy. Before every collect and every learner iteration, the numbers in it are set to what the schedules say. A run
    without schedules only counts, so that it may be resumed with one: its policy reads the compiled config itself.

    Args:
        cfg: the compiled `cfg.policy`.
        policy_cls: the policy's class, which declares the keys.
        create_input: turns a number that a compiled or captured loss may read into a tensor, which is then filled:
            such a loss treats other numbers as constants.
        create_figure: turns a number into a figure for the log.

    Attributes:
        cfg: the config for the policy to read; `cfg` itself if it has no schedules.
        figures: the current numbers, for the log.
    """

    def __init__(
        self,
        cfg: EasyDict,
        policy_cls: type,
        create_input: Callable[[float], Any] = float,
        create_figure: Callable[[float], Any] = float,
    ) -> None:
        self._schedules = find_schedules(cfg, policy_cls)
        self._counts = {"env_step": 0, "iteration": 0, "collect": -1}  # -1: no collect has begun
        self.figures: dict[str, Any] = {}
        self._create_figure = create_figure
        self._places: dict[str, tuple[EasyDict, str]] = {}  # the section of the config and the key of each schedule
        self._read_counts = {schedule.by for schedule in self._schedules.values()}
        self._set_at: list[int] = []  # values of these counts when the numbers were last set
        self._followers = {path: Scheduled(self._number(path), partial(self._number, path)) for path in self._schedules}
        self.cfg = cfg
        if self._followers:
            self.cfg = EasyDict({**cfg, **{name: copy.deepcopy(cfg[name]) for name in SECTIONS if name in cfg}})
        for path, number in self._followers.items():
            is_input = (cfg.compile or cfg.cuda) and not path.startswith(OUTSIDE_LOSSES)
            set_key(self.cfg, path, create_input(float(number)) if is_input else number)
            section, _, name = path.rpartition(".")
            self._places[path] = get_key(self.cfg, section) if section else self.cfg, name

    def follower(self, path: str) -> float:
        """Return the number of a key, to be kept by another part of the run; it is `Scheduled` if it has a schedule."""
        return self._followers.get(path, get_key(self.cfg, path))

    def numbers(self, path: str) -> list[float]:
        """Return the numbers that a key's schedule contains, or its only number."""
        return self._schedules[path].numbers if path in self._schedules else [get_key(self.cfg, path)]

    def _number(self, path: str) -> float:
        schedule = self._schedules[path]
        return schedule.at(max(self._counts[schedule.by], 0))

    def set_numbers(self) -> None:
        """Write the current numbers into the config, and into the figures for the log, if their counts have changed."""
        counts = [self._counts[by] for by in self._read_counts]
        if counts == self._set_at:
            return
        self._set_at = counts
        for path, (section, name) in self._places.items():
            number = self._number(path)
            self.figures[path.removeprefix("learn.")] = self._create_figure(number)
            if isinstance(section[name], float):
                section[name] = number
            else:
                section[name].fill_(number)

    @property
    def iteration(self) -> int:
        """The number of learner iterations so far."""
        return self._counts["iteration"]

    def count_iteration(self) -> None:
        """Count a learner iteration."""
        self._counts["iteration"] += 1

    def count_collect(self, envstep: int) -> None:
        """Count a collect, which begins after `envstep` env steps of all ranks."""
        self._counts["env_step"] = envstep
        self._counts["collect"] += 1

    def state_dict(self) -> dict[str, int]:
        """Return the counts, which are the same on all ranks."""
        return dict(self._counts)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore a state that `state_dict` returned."""
        self._counts.update(state)
        self.set_numbers()
