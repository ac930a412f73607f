"""Seeds: every environment's own, every episode's own, and the environment that starts and replays an episode by them.

An episode is a function of `(seed, episode, actions)`: the seed that the environment was last given, the number of
episodes since, and the actions taken. So what is needed to come back to any step of it is small, and no simulator has
to save its state. Never imports torch: worker processes import this module.
"""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np

from ding_lite.utils.tree import tree_leaves, tree_map

MASK64 = 2**64 - 1


def derive_seeds(seed: int, *path: int | str, n: int) -> list[int]:
    """Return `n` seeds below 2**31 that depend on nothing but `seed` and `path`.

    Different paths, such as `(rank, "collect")` and `(rank, "evaluate", 3)`, give independent seeds; a larger `n`
    continues the same list.
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(n)
    return [int(word >> 1) for word in words]


def episode_seed(seed: int, episode: int) -> int:
    """Return the seed below 2**31 of an environment's episode; that of episode 0 is `seed` itself.

    SplitMix64 (Steele, Lea and Flood, 2014) of both numbers: it takes a microsecond, `derive_seeds` takes ten.
    """
    if episode == 0:
        return seed
    z = (seed << 32 | episode) + 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return (z ^ z >> 31) >> 33


class SeededEnv(gymnasium.Wrapper):
    """One environment of several whose episodes all have their own seed, see `episode_seed`.

    An environment that says `counts_episodes = True` of itself gets its own seed and `options["episode"]` instead, and
    makes of both what it likes.
    """

    def __init__(self, env: gymnasium.Env, index: int = 0) -> None:
        super().__init__(env)
        self._index, self._seed, self._episode = index, 0, -1
        self._counts = getattr(env.unwrapped, "counts_episodes", False)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode: the next one, or episode 0 of a new seed.

        Args:
            seed: of the environment, not of an episode.
            options: `episode` `[N]` starts that one instead. `actions`, one array `[T, ...]` or a dict of these for
                each of N environments, are taken at once; `info["replayed"]` tells whether the episode took them all.
                Whatever else there is goes to the environment.
        """
        others = dict(options or {})
        episode_N, actions_N = others.pop("episode", None), others.pop("actions", None)
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode = self._episode + 1 if episode_N is None else int(episode_N[self._index])
        if self._counts:
            others["episode"] = self._episode
            seed = self._seed
        else:
            seed = episode_seed(self._seed, self._episode)
        obs, info = self.env.reset(seed=seed, options=others or None)
        return (obs, info) if actions_N is None else self._replay(obs, info, actions_N[self._index])

    def _replay(self, obs: Any, info: dict[str, Any], actions: Any) -> tuple[Any, dict[str, Any]]:
        num_steps, ended = len(next(tree_leaves(actions))), False
        for t in range(num_steps):
            if ended:
                break
            obs, _, terminated, truncated, info = self.env.step(tree_map(lambda rows, t=t: rows[t], actions))
            ended = terminated or truncated
        return obs, {**info, "replayed": not ended}
