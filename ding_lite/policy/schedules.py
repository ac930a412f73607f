"""Sets the numbers of a policy's config that a schedule determines, see `utils/schedule.py`.

A policy reads its config when it needs a number, as it does without schedules: `self._cfg.learn.clip_ratio`. That
config is the policy's own copy. Before every collect and every learner iteration, the numbers in it are set to what the
schedules say. A run without schedules only counts, so that it may be resumed with one: its policy reads the compiled
config itself.
"""

from __future__ import annotations

from functools import partial

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.utils.key import declared_keys
from ding_lite.utils.schedule import (
    Scheduled,
    find_schedules,
    get_number,
    number_at,
    numbers_of,
    set_number,
    with_numbers,
)


class Schedules:
    """The schedules of one policy, and the counts that they depend on.

    Args:
        cfg: the compiled `cfg.policy`.
        policy_cls: the policy's class, which declares the keys.

    Attributes:
        cfg: the config for the policy to read; `cfg` itself if it has no schedules.
        figures: the current numbers, for the log.
    """

    def __init__(self, cfg: EasyDict, policy_cls: type) -> None:
        self._schedules = find_schedules(cfg, declared_keys(policy_cls))
        self._counts = {"env_step": 0, "iteration": 0, "collect": -1}  # -1: no collect has begun
        self.figures: dict[str, Tensor] = {}
        self._followers = {path: Scheduled(self._number(path), partial(self._number, path)) for path in self._schedules}
        self.cfg = with_numbers(cfg, self._followers) if self._followers else cfg

    def follower(self, path: str) -> float:
        """Return the number of a key, to be kept by another part of the run.

        Args:
            path: the key's dotted name, without 'policy.'.

        Returns:
            A `Scheduled` number if the key has a schedule: as a function, it returns the current number. Otherwise the
            number of the config.
        """
        return self._followers[path] if path in self._followers else get_number(self.cfg, path)

    def numbers(self, path: str) -> list[float]:
        """Return the numbers that a key's schedule contains, or its only number."""
        schedule = self._schedules.get(path)
        return [get_number(self.cfg, path)] if schedule is None else numbers_of(schedule)

    def _number(self, path: str) -> float:
        """Return the current number of a key."""
        schedule = self._schedules[path]
        return number_at(schedule, max(self._counts[schedule["by"]], 0))

    def set_numbers(self) -> None:
        """Write the current numbers into the config, and into the figures for the log."""
        for path in self._schedules:
            number = self._number(path)
            set_number(self.cfg, path, number)
            self.figures[path.removeprefix("learn.")] = torch.tensor(number, dtype=torch.float64)

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

    def load_state_dict(self, state: dict[str, int] | None) -> None:
        """Restore a state that `state_dict` returned.

        Raises:
            ValueError: it is None, so a version without schedules wrote the checkpoint.
        """
        if state is None:
            raise ValueError(
                "the state has no counts for schedules, because an older version wrote it: continue it without "
                "schedules, or start from the model alone, with policy.learn.resume_training=False"
            )
        self._counts.update(state)
        self.set_numbers()
