"""Simulators that are pure functions of JAX, as one tensor, for `env_manager.type='batched'`.

`reset(key)` and `step(state, action)` of such a simulator play one environment. Here they play N, with episodes of
limited length, one after another.

Shapes: N environments, A numbers of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ding_lite.utils.registry import ConfigError, closest, load_extra


class JaxVectorEnv(VectorEnv):
    """N environments whose arrays are JAX's; where an episode ends, the next one begins in the same step.

    Args:
        env: the simulator: `reset(key)` and `step(state, action)` return a state with `obs`, an array or a dict of
            arrays, `reward` and `done`. Actions are `action_size` numbers from -1 to 1.
        num_envs: N.
        max_episode_steps: env steps after which an episode is truncated; 0: never.
    """

    def __init__(self, env: Any, num_envs: int, max_episode_steps: int) -> None:
        self._jax = jax = load_extra("jax", "jax")
        self.num_envs, numbers = num_envs, jax.numpy
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "max_episode_steps": max_episode_steps or None}
        self.single_observation_space = _space(jax.eval_shape(env.reset, jax.random.PRNGKey(0)).obs)
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

            def choose(new: Any, old: Any) -> Any:
                if old.shape[:1] != (num_envs,):  # memory that the environments share, such as Warp's list of contacts
                    return old
                return numbers.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)

            def restart() -> Any:
                first, zero, new_key = begin(key)
                return jax.tree.map(choose, first, last), choose(zero, time), new_key

            state, time, key = jax.lax.cond(ended.any(), restart, lambda: (last, time, key))
            return (state, time, key), (state.obs, last.reward, terminated, truncated, last.obs)

        self._begin, self._advance = jax.jit(begin), jax.jit(advance)
        # the states, the env steps of their episodes [N], a random key
        self._carried: tuple[Any, Any, Any] = (None, None, jax.random.PRNGKey(0))

    @property
    def elapsed_steps(self) -> Any:
        """The env steps of the running episodes, int32 `[N]`."""
        return self._carried[1]

    @elapsed_steps.setter
    def elapsed_steps(self, time: Any) -> None:
        state, _, key = self._carried
        self._carried = state, time, key

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in all environments, and return their observations."""
        if options:
            raise ValueError(f"options: expected none, got {sorted(options)}.")
        key = self._carried[2] if seed is None else self._jax.random.PRNGKey(seed % 2**32)
        self._carried = self._begin(key)
        return self._carried[0].obs, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action `[N, A]` in each environment."""
        self._carried, (obs, reward, terminated, truncated, final_obs) = self._advance(*self._carried, actions)
        return obs, reward, terminated, truncated, {"final_obs": final_obs}

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all arrays that the next steps depend on."""
        return {"arrays": [np.array(leaf) for leaf in self._jax.tree.leaves(self._carried)]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, after a `reset`, which determines the structure of a state."""
        structure = self._jax.tree.structure(self._carried)
        arrays = [self._jax.numpy.asarray(np.asarray(array)) for array in state["arrays"]]
        self._carried = self._jax.tree.unflatten(structure, arrays)


class JaxEnv:
    """What `env.type` names: makes the environments of one library; a subclass has `names` and `load`."""

    library: ClassVar[str]  # in messages
    extra: ClassVar[str]

    def __init__(self, cfg_env: EasyDict) -> None:
        raise ConfigError(f"env.type='{self.extra}' has no single environments: set env_manager.type to 'batched'.")

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: Any) -> JaxVectorEnv:
        """Return N environments on JAX's default device."""
        known = sorted(cls.names())
        if cfg_env.env_id not in known:
            raise ConfigError(f"env.env_id: {cls.library} knows no '{cfg_env.env_id}'.{closest(cfg_env.env_id, known)}")
        env, limit = cls.load(cfg_env.env_id, cfg_env.kwargs)
        return JaxVectorEnv(env, num_envs, limit if cfg_env.max_episode_steps is None else cfg_env.max_episode_steps)

    @classmethod
    def names(cls) -> Any:
        """Return the possible `env.env_id`."""
        raise NotImplementedError

    @classmethod
    def load(cls, name: str, kwargs: Mapping[str, Any]) -> tuple[Any, int]:
        """Return the simulator for `env.env_id` and `env.kwargs`, and the usual length of its episodes in env steps."""
        raise NotImplementedError

    @classmethod
    def module(cls, name: str) -> Any:
        """Return a module of the library, which has to be installed."""
        return load_extra(name, cls.extra, f"env.type='{cls.extra}'")


def _space(obs: Any) -> Space[Any]:
    """Return the space of observations of which the shapes are given."""
    if isinstance(obs, Mapping):
        return Dict({key: _space(part) for key, part in obs.items()})
    return Box(-np.inf, np.inf, obs.shape, np.float32)
