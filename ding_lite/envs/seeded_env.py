"""Derives the seeds of environments and of their episodes, and wraps an environment to start episodes with them.

An episode is a function of `(seed, episode, actions)`: the newest seed of its environment, the number of episodes since
that seed was set, and the actions taken.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from ding_lite.envs.masks import MASK, allows_something, find_mask_space
from ding_lite.envs.returned import USUAL, EnvError, check_reset, check_step, fit, malformed_step, plain_type
from ding_lite.utils.registry import UserError, closest
from ding_lite.utils.tree import tree_map

BATCHED = frozenset({"final_obs", "final_info"})  # keys of `info` that gymnasium's vector environments add
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
    """
    if episode == 0:
        return seed
    z = (seed << 32 | episode) + 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return (z ^ z >> 31) >> 33


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python and NumPy; `utils.seed` would import torch."""
    random.seed(seed)
    np.random.seed(seed)


class SeededEnv(gymnasium.Wrapper):
    """Wraps one environment, with the user's wrappers: gives its episodes seeds, and checks what it returns.

    Each episode gets a seed of its own, see `episode_seed`. An environment with the attribute `counts_episodes = True`
    receives its unchanged seed and `options["episode"]` instead, and may use them in any way.

    Args:
        env: the environment.
        index: its number in the vector environment.
        name: the environment's name in messages.
        options: options of every reset, to which those of a reset are added.
        dynamic_seed: whether episodes have seeds of their own; False: every episode is episode 0.

    Attributes:
        seeds_globals: whether `reset` also seeds the global generators of Python and NumPy. Set it only in a process
            that plays nothing but this environment.

    Raises:
        EnvError: by `reset` and `step`, if what the environment returns does not fit its space, see `returned`.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        index: int = 0,
        name: str = "",
        options: Mapping[str, Any] | None = None,
        dynamic_seed: bool = True,
    ) -> None:
        super().__init__(env)
        self.seeds_globals, self._options, self._dynamic_seed = False, options or {}, dynamic_seed
        self._index, self._seed, self._episode = index, 0, -1
        self._counts = getattr(env.unwrapped, "counts_episodes", False)
        self._space, self._plain = env.observation_space, plain_type(env.observation_space)
        self._name = f"Environment '{name}'"
        self._stepped = f"{self._name}: step returned obs"
        self._masked = find_mask_space(env.observation_space) is not None

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
        if not self._dynamic_seed:
            self._episode = 0
        own = episode_seed(self._seed, self._episode)
        if self.seeds_globals:
            seed_globals(own)
        if self._counts:
            result = self.env.reset(seed=self._seed, options=others | {"episode": self._episode})
        else:
            result = self.env.reset(seed=own, options=others or None)
        obs, info = check_reset(result, self._name)
        obs = fit(obs, self._space, f"{self._name}: reset returned obs")
        if self._masked:
            self._check_mask(obs)
        return obs, _without_batched(info)

    def _check_mask(self, obs: dict[str, Any]) -> None:
        if not allows_something(obs[MASK], self.action_space):
            raise EnvError(
                f"{self._name}: the {MASK} {obs[MASK].tolist()} allows no action, but the episode goes on: allow one, "
                "or end the episode before."
            )

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
        result = self.env.step(action)
        try:
            obs, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise malformed_step(result, self._name) from None
        if (type(reward), type(terminated), type(truncated)) != USUAL or type(info) is not dict:
            reward, terminated, truncated = check_step(reward, terminated, truncated, info, self._name)
        if type(obs) is not np.ndarray or obs.dtype != self._plain or obs.shape != self._space.shape:
            obs = fit(obs, self._space, self._stepped)
        if terminated or truncated:
            obs = tree_map(np.array, obs)
        elif self._masked:
            self._check_mask(obs)
        if info:
            info = _without_batched(info)
        return obs, reward, terminated, truncated, info


def step_or_restart(env: gymnasium.Env, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """Take a step in gymnasium's mode SAME_STEP.

    Returns:
        What `step` returned. If the episode ended, the observation and the `info` are those of the next `reset`, and
        this `info` has the keys `final_obs` and `final_info`.
    """
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated or truncated:
        final = {"final_obs": obs, "final_info": info}
        obs, info = env.reset()
        info = info | final
    return obs, reward, terminated, truncated, info


def _without_batched(info: dict[str, Any]) -> dict[str, Any]:
    return info if BATCHED.isdisjoint(info) else {key: value for key, value in info.items() if key not in BATCHED}
