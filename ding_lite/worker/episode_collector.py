"""Collecting whole episodes, the same number in every environment, so that short ones do not count more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from ding_lite.torch_utils.modes import CollectMode
from ding_lite.worker.collector import SampleCollector

FIRST_CAPACITY = 64  # rows; doubled whenever an episode is longer


class EpisodeCollector(SampleCollector):
    """Plays `n_episode` episodes of one rank a call, from their beginning to their end.

    T is the number of steps that the slowest environment needs for its share. The others continue meanwhile, and these
    steps are in the block too. `rl_utils.episodes.first_episodes` says which steps count: those of each environment's
    first episodes, the same number in each. Every played step is an `env_step`, whether it counts or not. In all else
    the block is that of `SampleCollector`.
    """

    def __init__(
        self,
        env: VectorEnv,
        policy: CollectMode,
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
        share = n_episode // self._num_envs if n_episode else self._share
        ended_N, t = np.zeros(self._num_envs, np.int64), 0
        while ended_N.min() < share:
            if t == self._rows.capacity:
                self._rows.reserve(max(2 * t, FIRST_CAPACITY))
            ended_N += self._play(t, random, kwargs)
            t += 1
        block, ends = self._rows.take(t, self._obs)
        env_K = ends.pop("index") % self._num_envs
        counted_K = [np.count_nonzero(env_K[:k] == n) < share for k, n in enumerate(env_K)]
        counted = {key: values[counted_K] for key, values in ends.items()}
        return self._policy.get_train_sample(block), self._count(t, counted, time.perf_counter() - start)
