"""Seeds of environments and of their episodes, and a wrapper that starts episodes with them.

An episode is a function of `(seed, episode, actions)`: the seed that its environment was last given, the number of
episodes since then, and the actions taken. Never imports torch: worker processes import this module.
"""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np

from ding_lite.utils.tree import tree_map

MASK64 = 2**64 - 1


def derive_seeds(seed: int, *path: int | str, n: int) -> list[int]:
    """Return `n` seeds below 2**31 that depend only on `seed` and `path`.

    Different paths, such as `(rank, "collect")` and `(rank, "evaluate", 3)`, give independent seeds. A larger `n`
    continues the same list.
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(n)
    return [int(word >> 1) for word in words]


def episode_seed(seed: int, episode: int) -> int:
    """Return the seed below 2**31 of an environment's episode; episode 0 has the environment's own `seed`.

    SplitMix64 (Steele, Lea and Flood, 2014) of both numbers. It takes a microsecond; `derive_seeds` takes ten.
    """
    if episode == 0:
        return seed
    z = (seed << 32 | episode) + 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return (z ^ z >> 31) >> 33


class SeededEnv(gymnasium.Wrapper):
    """One environment of several, whose episodes have a seed each, see `episode_seed`.

    An environment with the attribute `counts_episodes = True` receives its unchanged seed and `options["episode"]`
    instead, and may use them in any way.

    Args:
        env: the environment.
        index: its place in the vector environment.
    """

    def __init__(self, env: gymnasium.Env, index: int = 0) -> None:
        super().__init__(env)
        self._index, self._seed, self._episode = index, 0, -1
        self._counts = getattr(env.unwrapped, "counts_episodes", False)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode: the next one, or episode 0 of a new seed.

        Args:
            seed: the environment's, not an episode's.
            options: `episode`, int `[N]`, numbers of the episodes to start instead; others go to the environment.
        """
        others = dict(options or {})
        episode_N = others.pop("episode", None)
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode = self._episode + 1 if episode_N is None else int(episode_N[self._index])
        if self._counts:
            return self.env.reset(seed=self._seed, options=others | {"episode": self._episode})
        return self.env.reset(seed=episode_seed(self._seed, self._episode), options=others or None)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step. An episode's last observation is copied, because the reset that follows may overwrite it."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            obs = tree_map(np.array, obs)
        return obs, reward, terminated, truncated, info
