"""Derives the seeds of environments and of their episodes, and wraps an environment to start episodes with them.

An episode is a function of `(seed, episode, actions)`: the newest seed of its environment, the number of episodes since
that seed was set, and the actions taken. This module never imports torch, because worker processes import it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from ding_lite.utils.registry import UserError, closest
from ding_lite.utils.tree import tree_map

MASK64 = 2**64 - 1


def derive_seeds(seed: int, *path: int | str, n: int) -> list[int]:
    """Return `n` seeds below 2**31 that depend only on `seed` and `path`.

    Args:
        seed: the config's seed.
        *path: names the use of the seeds. Different paths, such as `(rank, "collect")` and `(rank, "evaluate", 3)`,
            give independent seeds.
        n: number of seeds. A larger `n` gives the same seeds and more.
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(n)
    return [int(word >> 1) for word in words]


def episode_seed(seed: int, episode: int) -> int:
    """Return the seed, below 2**31, of an environment's episode.

    Episode 0 has the environment's seed. All others have the SplitMix64 hash (Steele, Lea and Flood, 2014) of both
    numbers, which takes a microsecond; `derive_seeds` would take ten.

    Args:
        seed: the environment's seed.
        episode: number of the episode since that seed was set.
    """
    if episode == 0:
        return seed
    z = (seed << 32 | episode) + 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return (z ^ z >> 31) >> 33


class SeededEnv(gymnasium.Wrapper):
    """Wraps one environment of a vector environment, and gives each of its episodes a seed, see `episode_seed`.

    An environment with the attribute `counts_episodes = True` receives its unchanged seed and `options["episode"]`
    instead, and may use them in any way.

    Args:
        env: the environment.
        index: its number in the vector environment.
        options: options of every reset, to which those of a reset are added.
    """

    def __init__(self, env: gymnasium.Env, index: int = 0, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(env)
        self._options = options or {}
        self._index, self._seed, self._episode = index, 0, -1
        self._counts = getattr(env.unwrapped, "counts_episodes", False)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode: the next one, or episode 0 of a new seed.

        Args:
            seed: the environment's seed, not that of an episode.
            options: `episode`, int `[N]`, gives the numbers of the episodes to start instead. All other options are
                passed to the environment.
        """
        others = {**self._options, **(options or {})}
        episode_N = others.pop("episode", None)
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode = self._episode + 1 if episode_N is None else int(episode_N[self._index])
        if self._counts:
            return self.env.reset(seed=self._seed, options=others | {"episode": self._episode})
        return self.env.reset(seed=episode_seed(self._seed, self._episode), options=others or None)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the environment or of one of its wrappers; gymnasium would create one that is missing.

        Raises:
            UserError: none of them has the attribute.
        """
        if not super().set_wrapper_attr(name, value, force=False):
            env = self.unwrapped
            hint = closest(name, dir(env))
            raise UserError(
                f"set_attr: {type(env).__name__} has no attribute '{name}'.{hint} Set it in __init__ first."
            )
        return True

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step. The last observation of an episode is copied, because the next reset may overwrite it."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            obs = tree_map(np.array, obs)
        return obs, reward, terminated, truncated, info
