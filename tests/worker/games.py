"""A game whose every number is known beforehand, and vector environments of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv

from ding_lite.envs.keys import ENV_DEFAULTS
from ding_lite.envs.vector_env import create_vector_env
from tests.toys import Toy

REWARD = 3.0


class CountingGame(Toy):
    """Observations `(seed of the episode, steps so far)`; each step is worth 3; it ends after `length` steps.

    The seed of an episode is that of the environment plus the number of the episode.

    Args:
        length: steps of an episode.
        end: 'terminated' or 'truncated'.
        lives_at: steps after which a life is lost.
        log: takes `(seed, step, action)` of each step, and `('reset', seed)`.
    """

    observation_space: gymnasium.Space[Any] = Box(-np.inf, np.inf, (2,), np.float64)
    action_space: gymnasium.Space[Any] = Discrete(3)
    counts_episodes = True

    def __init__(
        self, length: int, end: str = "terminated", lives_at: tuple[int, ...] = (), log: list[Any] | None = None
    ) -> None:
        self.length, self.end, self.lives_at, self.log = length, end, lives_at, [] if log is None else log
        self.seed = 0

    def observe(self) -> Any:
        return np.array([self.seed, self.count], np.float64)

    def _info(self) -> dict[str, Any]:
        return {"lives": 1 + sum(self.count < at for at in self.lives_at)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        assert options is not None
        self.seed = seed + options["episode"]
        self.log.append(("reset", self.seed))
        self.count = 0
        return self.observe(), self._info()

    def play(self, action: Any) -> Any:
        self.log.append((self.seed, self.count - 1, int(action)))
        over = self.count >= self.length
        return REWARD, over and self.end == "terminated", over and self.end == "truncated", self._info()


def game_env(*games: CountingGame, training: bool = True, bounded: bool = False, **options: Any) -> VectorEnv:
    """Return the vector environment of these games, with options of `cfg.env`."""
    cfg = EasyDict(copy.deepcopy(ENV_DEFAULTS) | options)
    return create_vector_env(cfg, len(games), 0, training, builders=[always(game) for game in games], bounded=bounded)


def always(game: CountingGame) -> Callable[[EasyDict], CountingGame]:
    """Return a builder of this very game."""
    return lambda _: game


class Acting:
    """A player of a collector that acts by a function, and collects what it returns."""

    def __init__(self, act: Callable[..., dict[str, Any]]) -> None:
        self.act = act

    def begin_collect(self, envstep: int) -> dict[str, Any]:
        return {}

    def to_row(self, obs: Any, output: dict[str, Any], timestep: SimpleNamespace) -> dict[str, Any]:
        return {"obs": obs, **output, **{key: getattr(timestep, key) for key in ("reward", "done", "traj_flag")}}

    def reset(self, env_id: np.ndarray | None = None) -> None:
        pass
