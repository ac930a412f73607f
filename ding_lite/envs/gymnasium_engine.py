"""Plays gymnasium's own vectorised environments, which compute all environments as one batch.

gymnasium 1.4 has one for CartPole, and three that need JAX. They reset an ended environment during the next step of the
others, and they take one seed for all. CartPole's state is an array, in which an ended episode is immediately replaced
here by a start from its own seed. This module never imports torch. Shapes: N environments, K of which start an episode.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.utils.seeding import np_random

from ding_lite.envs.same_step import ENDLESS, EngineBuilder, SameStepEngine
from ding_lite.envs.seeded_env import episode_seed
from ding_lite.envs.spaces import stack_depth
from ding_lite.utils.registry import ConfigError, UserError, closest


@dataclass(frozen=True)
class GymnasiumBuilder(EngineBuilder):
    """Builds the vectorised environment that gymnasium has for an id.

    Attributes:
        spec: gymnasium's spec of the id, with a `vector_entry_point`.
    """

    spec: Any

    def make_native(self, cfg_env: EasyDict, num_envs: int, num_threads: int) -> SameStepEngine:
        """Build the engine, which has to be reset with seeds first.

        Raises:
            ConfigError: gymnasium cannot make it with `env.kwargs`, or its resets cannot be made SAME_STEP.
        """
        steps = cfg_env.max_episode_steps
        limit: dict[str, Any] = {} if steps is None else {"max_episode_steps": steps or ENDLESS}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # gymnasium warns about ids with a newer version
                env = gymnasium.make_vec(self.spec, num_envs, "vector_entry_point", **cfg_env.kwargs, **limit)
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise ConfigError(
                f"env.env_id '{self.spec.id}': gymnasium's vectorised environment cannot be made with env.kwargs "
                f"{dict(cfg_env.kwargs)}: {error}"
            ) from error
        if not isinstance(env, CartPoleVectorEnv):
            env.close()
            raise ConfigError(
                f"env.env_id '{self.spec.id}': {type(env).__name__} spends steps of all environments on a reset: set "
                "env_manager.type to 'base' or 'subprocess'."
            )
        return CartPoleEngine(env, stack_depth(cfg_env))


class CartPoleEngine(SameStepEngine):
    """gymnasium's vectorised CartPole, whose episodes are those of `SeededEnv` with gymnasium's single CartPole.

    Args:
        env: the environment, which is changed.
        frame_stack: see `SameStepEngine`.
    """

    counts_episodes = True

    def __init__(self, env: CartPoleVectorEnv, frame_stack: int = 0) -> None:
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space, frame_stack)
        env.reset(seed=0)  # allocates the state
        self._env: Any = env
        self._seed_N = np.zeros(env.num_envs, np.int64)
        self._episode_N = np.full(env.num_envs, -1)

    def _set_seeds(self, index_K: np.ndarray, seed_N: list[int] | None, options: dict[str, Any]) -> None:
        if seed_N is not None:
            self._seed_N[index_K], self._episode_N[index_K] = np.asarray(seed_N)[index_K], -1
        if "episode" in options:
            self._episode_N[index_K] = options["episode"][index_K] - 1

    def _restart(self, index_K: np.ndarray) -> tuple[Any, dict[str, Any]]:
        env = self._env
        self._episode_N[index_K] += 1
        for n in index_K.tolist():
            generator, _ = np_random(episode_seed(int(self._seed_N[n]), int(self._episode_N[n])))
            env.state[:, n] = generator.uniform(env.low, env.high, 4)
        env.steps[index_K], env.prev_done[index_K] = 0, False
        return env.state[:, index_K].T.astype(np.float32), {}

    def _advance(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        return self._env.step(actions)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of gymnasium's environment, which all N share, so it has one value."""
        if not hasattr(self._env, name):
            raise UserError(f"set_attr: CartPole has no attribute '{name}'.{closest(name, dir(self._env))}")
        if isinstance(values, list | tuple):
            raise UserError(f"set_attr: gymnasium's vectorised CartPole has one '{name}' for all, got {values}.")
        setattr(self._env, name, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Close gymnasium's environment."""
        self._env.close()
