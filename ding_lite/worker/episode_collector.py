"""Playing whole episodes: every environment its share, so that short episodes count no more than long ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ding_lite.envs import EpisodeMonitor
from ding_lite.worker.collector import SampleCollector

FIRST_CAPACITY = 64  # rows; doubled whenever an episode is longer


class EpisodeCollector(SampleCollector):
    """Plays `n_episode` episodes of one rank a call, from their beginning to their end.

    T is what the slowest environment needs for its share. Others go on meanwhile, and what they play is in the block
    but not to be learned from: `valid` `[T, N]` says which steps belong to the episodes that count. One that ends
    abnormally does not, and another is played for it. The rest of the block is `SampleCollector`'s. Every step played
    counts as `env_step`, whether valid or not.
    """

    def __init__(
        self,
        env: EpisodeMonitor,
        policy: SimpleNamespace,
        n_episode: int,
        seeds: list[int],
        interrupt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take a policy's `collect_mode`; `n_episode` is episodes of this rank and collect, a multiple of N."""
        super().__init__(env, policy, n_episode, seeds, interrupt)

    def collect(self, n_episode: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play `n_episode` new episodes, see `SampleCollector.collect`; `episode` and its sums are of those alone."""
        start = time.perf_counter()
        if self._episode_step_N.any():  # else all are new
            self.reset()
        kwargs = self._policy.get_collect_kwargs(self.envstep)
        due_N = np.full(self._num_envs, n_episode // self._num_envs if n_episode else self._share)
        valid: list[np.ndarray] = []
        while (valid_N := due_N > 0).any():
            t = len(valid)
            if t == self._rows.capacity:
                self._rows.reserve(max(2 * t, FIRST_CAPACITY))
            due_N -= self._play(t, random, kwargs)
            valid.append(valid_N)
        block, totals = self._rows.take(len(valid), self._obs, np.stack(valid))
        samples = self._policy.get_train_sample(block)
        return samples, self._count(len(valid), totals, time.perf_counter() - start)
