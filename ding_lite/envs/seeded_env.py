"""Plays environments in this process: gives their episodes seeds, checks what they return, steps in mode SAME_STEP.

An episode is a function of `(seed, episode, actions)`: the newest seed of its environment, the number of episodes since
that seed was set, and the actions taken. N is the number of environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from ding_lite.envs.masks import allows_something, find_mask_space
from ding_lite.envs.returned import USUAL, EnvError, check_step, fit, malformed, plain_array
from ding_lite.utils.registry import UserError, closest
from ding_lite.utils.seed import episode_seed, seed_globals
from ding_lite.utils.tree import MASK, tree_map, write_row

BATCHED = frozenset({"final_obs", "final_info"})  # keys of `info` that gymnasium's vector environments add


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
        self._space, self._plain = env.observation_space, plain_array(env.observation_space)
        self._name = f"Environment '{name}'"
        self._stepped = f"{self._name}: step returned obs"
        self._masked = find_mask_space(env.observation_space) is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode: the next one, or episode 0 of a new seed, which is the environment's, not an episode's.

        The option `episode`, int `[N]`, gives the numbers of the episodes to start instead; the environment gets the
        others.
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
        if type(result) is not tuple or len(result) != 2 or not isinstance(result[1], dict):
            raise malformed(result, "(obs, info)", f"{self._name}: reset")
        obs, info = result
        if type(obs) is not np.ndarray or (obs.dtype, obs.shape) != self._plain:
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
        """Set an attribute of the environment or of one of its wrappers; gymnasium would create one that is missing."""
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
            raise malformed(result, "5", f"{self._name}: step") from None
        if (type(reward), type(terminated), type(truncated)) != USUAL or type(info) is not dict:
            reward, terminated, truncated = check_step(reward, terminated, truncated, info, self._name)
        if type(obs) is not np.ndarray or (obs.dtype, obs.shape) != self._plain:
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

    If the episode ended, the observation and the `info` are those of the next `reset`, and this `info` has the keys
    `final_obs` and `final_info`.
    """
    obs, reward, terminated, truncated, info = env.step(action)
    if terminated or truncated:
        final = {"final_obs": obs, "final_info": info}
        obs, info = env.reset()
        info = info | final
    return obs, reward, terminated, truncated, info


def _without_batched(info: dict[str, Any]) -> dict[str, Any]:
    return info if BATCHED.isdisjoint(info) else {key: value for key, value in info.items() if key not in BATCHED}


class MixedInfos(VectorEnv):
    """gymnasium's batching of infos, for values of a key that have different types or shapes.

    gymnasium's array has the type and shape of the first value. It becomes an array of objects if another value does
    not fit.
    """

    def _add_info(self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int) -> dict[str, Any]:
        try:
            return super()._add_info(vector_infos, env_info, env_num)
        except (TypeError, ValueError, OverflowError):
            for key, value in env_info.items():  # one at a time: the error skipped the keys after its own
                try:
                    super()._add_info(vector_infos, {key: value}, env_num)
                except (TypeError, ValueError, OverflowError):
                    objects = np.full(self.num_envs, None, object)
                    for i in np.flatnonzero(vector_infos.get(f"_{key}", ())).tolist():
                        objects[i] = vector_infos[key][i]
                    vector_infos[key] = objects
                    super()._add_info(vector_infos, {key: value}, env_num)
            return vector_infos


class SameProcessVectorEnv(MixedInfos, SyncVectorEnv):
    """gymnasium's vector environment of the manager 'base', with a faster step of the mode SAME_STEP."""

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the contract in `vector_env`."""
        rows: list[Any] = []
        infos: dict[str, Any] = {}
        for i, (env, action) in enumerate(zip(self.envs, iterate(self.action_space, actions), strict=True)):
            obs, *flags, info = step_or_restart(env, action)
            write_row(self._observations, i, obs)
            self._env_obs[i] = obs  # gymnasium's `reset` of other environments writes this array again
            rows.append(flags)
            infos = self._add_info(infos, info, i) if info else infos
        reward_N, terminated_N, truncated_N = map(np.array, zip(*rows, strict=True))
        return self._observations, reward_N, terminated_N, truncated_N, infos

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment to a value of its own, as in separate processes."""
        values = values if isinstance(values, list | tuple) else [values] * self.num_envs
        super().set_attr(name, [deepcopy(value) for value in values])
