"""Sets the numbers of a policy's config that a schedule determines, see `utils/schedule.py`.

A policy reads its config when it needs a number, as it does without schedules: `self._cfg.learn.clip_ratio`. That
config is the policy's own copy. Before every collect and every learner iteration, the numbers in it are set to what the
schedules say. A run without schedules only counts, so that it may be resumed with one: its policy reads the compiled
config itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.torch_utils.modes import Batch, CollectMode, EvalMode, LearnMode
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
    """

    def __init__(self, cfg: EasyDict, policy_cls: type) -> None:
        self._schedules = find_schedules(cfg, declared_keys(policy_cls))
        self._counts = {"env_step": 0, "iteration": 0, "collect": -1}  # -1: no collect has begun
        self._figures: dict[str, Tensor] = {}
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

    def _set(self) -> None:
        """Write the current numbers into the config, and into the figures for the log."""
        for path in self._schedules:
            number = self._number(path)
            set_number(self.cfg, path, number)
            self._figures[path.removeprefix("learn.")] = torch.tensor(number, dtype=torch.float64)

    def follow(
        self, learn: LearnMode, collect: CollectMode, evaluate: EvalMode
    ) -> tuple[LearnMode, CollectMode, EvalMode]:
        """Return modes that count, and set the numbers.

        Args:
            learn: the policy's learn mode.
            collect: the policy's collect mode.
            evaluate: the policy's eval mode.
        """
        self._set()

        def forward(batch: Batch) -> dict[str, Tensor]:
            self._set()
            output = self._figures | learn.forward(batch)
            self._counts["iteration"] += 1
            return output

        def get_collect_kwargs(envstep: int) -> dict[str, Any]:
            self._counts["env_step"] = envstep
            self._counts["collect"] += 1
            self._set()
            return collect.get_collect_kwargs(envstep)

        def reset_eval(env_id: np.ndarray | None = None) -> None:
            if env_id is None:  # a new evaluation
                self._set()
            evaluate.reset(env_id)

        def state_dict() -> dict[str, Any]:
            return learn.state_dict() | {"schedules": dict(self._counts)}

        def load_state_dict(state: dict[str, Any]) -> None:
            learn.load_state_dict(state)
            if "optimizer" in state:  # otherwise a new run starts from a saved model
                self._load_counts(state)

        def load_to_act(state: dict[str, Any]) -> None:
            evaluate.load_state_dict(state)
            if "schedules" in state:  # exploration continues with the numbers that it had
                self._load_counts(state)

        return (
            replace(
                learn,
                forward=forward,
                monitor_vars=lambda: [*learn.monitor_vars(), *self._figures],
                state_dict=state_dict,
                load_state_dict=load_state_dict,
            ),
            replace(collect, get_collect_kwargs=get_collect_kwargs),
            replace(evaluate, reset=reset_eval, load_state_dict=load_to_act),
        )

    def _load_counts(self, state: dict[str, Any]) -> None:
        if "schedules" not in state:
            raise ValueError(
                "the state has no counts for schedules, because an older version wrote it: continue it without "
                "schedules, or start from the model alone, with policy.learn.resume_training=False"
            )
        self._counts.update(state["schedules"])
        self._set()
