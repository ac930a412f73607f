"""Collects whole episodes, the same number in every environment, so that short episodes are not overrepresented."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ding_lite.worker.collector import SampleCollector

FIRST_CAPACITY = 64  # rows; doubled whenever an episode is longer
GRACE = 1000  # steps that a collect may go on when the run is over; a run that is resumed would repeat a shorter one


class EpisodeCollector(SampleCollector):
    """Plays `n_episode` whole episodes in each call of `collect`.

    T is the number of steps that the slowest environment needs for its share of the episodes. The other environments
    continue meanwhile, so the block also contains steps of further episodes. Only the first episodes of each
    environment, the same number in each, are used; `rl_utils.first_episodes` selects their steps. Every
    played step counts as an `env_step`, used or not. Otherwise the block is the same as that of `SampleCollector`.

    The episodes of the vector environment have to be `bounded`, see `EpisodeMonitor`. If they have no time limit, those
    that are running are truncated, and the collect ends, after an `interrupt`, and when the run is over.

    The arguments are those of `SampleCollector`, with `n_episode`, the episodes that this rank plays in each collect, a
    multiple of N, in place of `n_sample`; and `is_over`, which returns whether the run ends after so many env steps.
    """

    def __init__(self, *args: Any, is_over: Callable[[int], bool] = lambda envstep: False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_over = is_over

    def collect(self, n_episode: int | None = None, random: bool = False) -> tuple[dict[str, Any], dict[str, float]]:
        """Play `n_episode` new episodes.

        Args:
            n_episode: number of episodes, instead of the constructor's.
            random: draw actions at random instead of asking the policy.

        Returns:
            The block and the figures, as `SampleCollector.collect` returns them. `episode`, `return` and `length`
            count only the selected episodes.
        """
        start = time.perf_counter()
        if self._episode_step_N.any():  # otherwise every environment is at the start of an episode
            self.reset()
        kwargs = self._policy.begin_collect(self.envstep)
        share = n_episode // self.num_envs if n_episode else self._share
        ended_N, t = np.zeros(self.num_envs, np.int64), 0
        has_limit = bool(self._env.metadata.get("max_episode_steps"))
        while ended_N.min() < share:
            if t == self._rows.capacity:
                self._rows.reserve(max(2 * t, FIRST_CAPACITY))
            over = t >= GRACE and self._is_over(self.envstep + t * self.num_envs)
            if not has_limit and (over or self._interrupt()):  # nothing says how long the episodes would go on
                self._env.truncate_all()  # type: ignore[attr-defined]  # see `create_vector_env`
                share = 1
            ended_N += self._play(t, random, kwargs)
            t += 1
        share = ended_N.min()  # fewer only if episodes were truncated
        block, ends = self._rows.take(t, self._obs)
        env_K = ends.pop("index") % self.num_envs
        counted_K = [np.count_nonzero(env_K[:k] == n) < share for k, n in enumerate(env_K)]
        counted = {key: values[counted_K] for key, values in ends.items()}
        return block, self._count(t, counted, time.perf_counter() - start)
