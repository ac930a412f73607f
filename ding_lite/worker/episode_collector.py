"""Collects whole episodes, the same number in every environment, so that short episodes are not overrepresented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from ding_lite.utils.registry import ConfigError
from ding_lite.worker.collector import SampleCollector

FIRST_CAPACITY = 64  # rows; doubled whenever an episode is longer
GRACE = 1000  # steps that a collect may go on when the run is over; a run that is resumed would repeat a shorter one


class EpisodeCollector(SampleCollector):
    """Plays `n_episode` whole episodes in each call of `collect`.

    T is the number of steps that the slowest environment needs for its share of the episodes. The other environments
    continue meanwhile, so the block also contains steps of further episodes. Only the first episodes of each
    environment, the same number in each, are used; `rl_utils.first_episodes` selects their steps. Every
    played step counts as an `env_step`, used or not; `episode`, `return` and `length` count only the selected episodes.
    Otherwise the block is the same as that of `SampleCollector`.

    The episodes of the vector environment have to be `bounded`, see `EpisodeMonitor`. If they have no time limit, those
    that are running are truncated, and the collect ends, after an `interrupt`, and when the run is over.

    The arguments are those of `SampleCollector`, but numbers of env steps are numbers of episodes, of this rank and
    collect, multiples of N; and `is_over`, which returns whether the run ends after so many env steps.
    """

    def __init__(self, *args: Any, is_over: Callable[[int], bool] = lambda envstep: False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_over = is_over
        if self._env.metadata.get("autoreset_mode") == AutoresetMode.NEXT_STEP:
            raise ConfigError(
                "A policy that learns from whole episodes cannot play a simulator that spends a step on each reset, in "
                "gymnasium's mode NEXT_STEP: use another env_manager.type, or another policy such as 'ppo'."
            )

    def _steps(self, n_episode: int | None) -> Iterator[int]:
        """Yield the numbers t of steps until each environment has played its share of new episodes."""
        if self._episode_step_N.any():  # otherwise every environment is at the start of an episode
            self.reset()
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
            yield t
            ended_N += np.asarray(self._ended_N)
            t += 1
        self._played = ended_N.min()  # fewer than the share only if episodes were truncated

    def _counted(self, ends: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        env_K = ends.pop("index") % self.num_envs
        counted_K = [np.count_nonzero(env_K[:k] == n) < self._played for k, n in enumerate(env_K)]
        return {key: values[counted_K] for key, values in ends.items()}
