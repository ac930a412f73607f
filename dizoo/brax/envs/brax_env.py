"""Brax's robots (Freeman et al. 2021, arXiv:2106.13281) as one tensor, for `env_manager.type='batched'`; extra `brax`.

Shapes: N environments, D numbers of an observation, A of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, load_extra


class BraxVectorEnv(VectorEnv):
    """N environments of Brax, whose arrays are JAX's; where an episode ends, the next one begins in the same step.

    Args:
        name: Brax's name of the environment, such as 'hopper'.
        num_envs: N.
        max_episode_steps: env steps after which an episode is truncated; 0: never.
        kwargs: further arguments of `brax.envs.get_environment`, such as `backend`.
    """

    def __init__(self, name: str, num_envs: int, max_episode_steps: int, **kwargs: Any) -> None:
        self._jax = jax = load_extra("jax", "brax", "env.type='brax'")
        self._env = env = load_extra("brax.envs", "brax", "env.type='brax'").get_environment(name, **kwargs)
        self.num_envs, numbers = num_envs, jax.numpy
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "max_episode_steps": max_episode_steps or None}
        self.single_observation_space = Box(-np.inf, np.inf, (env.observation_size,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (env.action_size,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        limit = max_episode_steps or np.iinfo(np.int32).max

        def begin(key: Any) -> Any:
            key, drawn = jax.random.split(key)
            return jax.vmap(env.reset)(jax.random.split(drawn, num_envs)), numbers.zeros(num_envs, numbers.int32), key

        def advance(state: Any, time: Any, key: Any, action: Any) -> Any:
            last, time = jax.vmap(env.step)(state, action), time + 1
            terminated, truncated = last.done > 0, time >= limit
            ended = terminated | truncated

            def restart() -> Any:
                first, zero, new_key = begin(key)
                chosen = jax.tree.map(
                    lambda new, old: numbers.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old), first, last
                )
                return chosen, numbers.where(ended, zero, time), new_key

            state, time, key = jax.lax.cond(ended.any(), restart, lambda: (last, time, key))
            return (state, time, key), (state.obs, last.reward, terminated, truncated, last.obs)

        self._begin, self._advance = jax.jit(begin), jax.jit(advance)
        self._key = jax.random.key(0)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in all environments, and return their observations `[N, D]`."""
        if options:
            raise ValueError(f"options: expected none, got {sorted(options)}.")
        key = self._key if seed is None else self._jax.random.key(seed % 2**32)
        self._state, self._time, self._key = self._begin(key)
        return self._state.obs, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action `[N, A]` in each environment."""
        carried, (obs, reward, terminated, truncated, final_obs) = self._advance(
            self._state, self._time, self._key, actions
        )
        self._state, self._time, self._key = carried
        return obs, reward, terminated, truncated, {"final_obs": final_obs}


@ENV_REGISTRY.register("brax")
class BraxEnv:
    """Brax's environments; `env_id` is Brax's name, and `env.kwargs` are arguments of `brax.envs.get_environment`."""

    config: ClassVar = dict(
        env_id=Key("hopper", "Brax's name of the environment, such as 'ant', 'halfcheetah', 'hopper' or 'humanoid'"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        raise ConfigError("env.type='brax' has no single environments: set env_manager.type to 'batched'.")

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: Any) -> BraxVectorEnv:
        """Return N environments on JAX's default device."""
        known = sorted(load_extra("brax.envs", "brax", "env.type='brax'")._envs)
        if cfg_env.env_id not in known:
            raise ConfigError(f"env.env_id: Brax knows no '{cfg_env.env_id}'.{closest(cfg_env.env_id, known)}")
        limit = 1000 if cfg_env.max_episode_steps is None else cfg_env.max_episode_steps
        return BraxVectorEnv(cfg_env.env_id, num_envs, limit, **cfg_env.kwargs)
