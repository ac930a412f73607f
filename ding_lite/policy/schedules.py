"""The numbers of one policy's config that have schedules, and the counts that these depend on."""

from __future__ import annotations

import copy
from functools import partial

import torch
from easydict import EasyDict

from ding_lite.torch_utils.data import Figures
from ding_lite.utils.key import SECTIONS, ConfigDict, get_key, set_key
from ding_lite.utils.schedule import Scheduled, find_schedules

# Beginnings of the keys that losses do not read. They read no learning rate either.
OUTSIDE_LOSSES = (
    *("collect.", "eval.", "learn.weight_decay", "learn.adam_eps", "learn.momentum"),
    *("learn.grad_clip_value", "learn.target_theta"),
)


class Schedules:
    """The schedules of one policy, and the counts that they depend on.

    A policy reads its config when it needs a number: `self._cfg.learn.clip_ratio`. That config is the policy's own
    copy. Before every collect and every learner iteration, the numbers in it are set to what the schedules say. A run
    without schedules only counts, so that it may be resumed with one: its policy reads the compiled config itself.

    Attributes:
        cfg: the config for the policy to read; the compiled `cfg.policy` itself if it has no schedules. A number that a
            compiled or captured loss may read is a tensor, which is then filled: such a loss treats other numbers as
            constants.
        figures: the current numbers, for the log.
    """

    def __init__(self, cfg: EasyDict, policy_cls: type, device: torch.device) -> None:
        self._schedules = find_schedules(cfg, policy_cls)
        self._counts = {"env_step": 0, "iteration": 0, "collect": -1}  # -1: no collect has begun
        self.figures: Figures = {}
        self._places: dict[str, tuple[EasyDict, str]] = {}  # the section of the config and the key of each schedule
        self._read_counts = {schedule.by for schedule in self._schedules.values()}
        self._set_at: list[int] = []  # values of these counts when the numbers were last set
        self._followers = {path: Scheduled(self._number(path), partial(self._number, path)) for path in self._schedules}
        self.cfg = cfg
        if self._followers:
            self.cfg = ConfigDict({**cfg, **{name: copy.deepcopy(cfg[name]) for name in SECTIONS if name in cfg}})
        for path, number in self._followers.items():
            in_losses = "learning_rate" not in path and not path.startswith(OUTSIDE_LOSSES)
            is_input = (cfg.compile or cfg.cuda) and in_losses
            set_key(self.cfg, path, torch.tensor(float(number), device=device) if is_input else number)
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
            self.figures[path.removeprefix("learn.")] = torch.tensor(number, dtype=torch.float64)
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
