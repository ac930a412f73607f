"""Makes engines that play N environments at once obey the contract of `vector_env`.

An engine cannot be wrapped environment by environment, so observations are converted and stacked here, for all of them.
This module never imports torch. Shapes: N environments, K of which start an episode, S frames in an observation.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ding_lite.envs.checks import check_lives
from ding_lite.envs.frames import begin_stack, push_frame, stack_space
from ding_lite.envs.spaces import EnvSpec, observation_side, stack_depth
from ding_lite.utils.tree import tree_leaves, tree_map

ENDLESS = np.iinfo(np.int32).max  # a time limit that no episode reaches; envpool's of tasks that have none


class SameStepEngine(VectorEnv):
    """A SAME_STEP vector environment made of an engine that can restart some of its environments.

    Subclasses implement `_advance` and `_restart`, and `_set_seeds` if they accept seeds.

    Args:
        num_envs: N.
        observation_space: of one environment of the engine; what the policy sees follows from it, see
            `PolicyObservations`.
        action_space: of one environment.
        frame_stack: S, or 0 for observations without frames; see `frames`.
        image_layout: `env.image_layout`.

    Attributes:
        note: a message for the user about the conversion of observations; empty if none is necessary.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    counts_episodes = False  # see `vector_env`

    def __init__(
        self,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        frame_stack: int = 0,
        image_layout: str = "",
    ) -> None:
        self.num_envs, self._stack = num_envs, frame_stack
        space, self._convert, self.note = observation_side(observation_space, image_layout)
        if frame_stack:
            space = stack_space(space, frame_stack)
        self.single_observation_space, self.single_action_space = space, action_space
        self.observation_space, self.action_space = (batch_space(one, num_envs) for one in (space, action_space))
        self._obs: Any = None  # the newest observations `[N, ...]`; never written into
        self._info: dict[str, Any] = {}

    def _set_seeds(self, index_K: np.ndarray, seed_N: list[int] | None, options: dict[str, Any]) -> None:
        """Choose which episodes `_restart` starts next.

        Args:
            index_K: the environments.
            seed_N: see `SeededEnv.reset`. None: the next episodes of the current seeds.
            options: those of `reset`.
        """
        raise NotImplementedError

    def _restart(self, index_K: np.ndarray) -> tuple[Any, dict[str, Any]]:
        """Start the next episode in the environments `index_K`.

        Returns:
            The engine's observations and its `info`, arrays `[K, ...]` or dicts of these.
        """
        raise NotImplementedError

    def _advance(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment, and return what gymnasium's `step` does, before any restart."""
        raise NotImplementedError

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode in every environment, or only where `options["reset_mask"]`, bool `[N]`, is True.

        Args:
            seed: one for each environment. None: the current seeds.
            options: all others are passed to the engine.
        """
        others = dict(options or {})
        index_K = np.flatnonzero(others.pop("reset_mask", np.full(self.num_envs, True)))
        self._set_seeds(index_K, seed, others)
        self._begin(index_K)
        return self._obs, self._info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment; where an episode ended, start the next one."""
        raw, reward_N, terminated_N, truncated_N, info = self._advance(actions)
        frames = self._convert(raw)
        self._obs, self._info = push_frame(self._obs, frames, 1) if self._stack else frames, info
        last: dict[str, Any] = {}
        if (ended_N := terminated_N | truncated_N).any():
            index_K = np.flatnonzero(ended_N)
            last = {"final_obs": _final(self._obs, index_K), "final_info": info}
            self._begin(index_K)
        return self._obs, reward_N, terminated_N, truncated_N, self._info | last

    def _begin(self, index_K: np.ndarray) -> None:
        """Restart environments, and put what they return into the rows of `_obs` and `_info`."""
        raw, info = self._restart(index_K)
        obs = self._convert(raw)
        if self._stack:
            obs = begin_stack(obs, self._stack, 1)
        if len(index_K) < self.num_envs:
            info = {key: value for key, value in info.items() if key in self._info}
            obs, info = _put(self._obs, index_K, obs), self._info | _put(self._info, index_K, info)
        self._obs, self._info = obs, info


def _final(obs: Any, index_K: np.ndarray) -> np.ndarray:
    """Return observations as gymnasium has them in `final_obs`: an array of dicts if they are dicts."""
    if not isinstance(obs, dict):
        return obs
    rows = np.full(len(next(tree_leaves(obs))), None, object)
    for n in index_K.tolist():
        rows[n] = tree_map(lambda leaf, n=n: leaf[n], obs)
    return rows


def _put(whole: Any, index_K: np.ndarray, rows: Any) -> Any:
    """Return a copy of the arrays `[N, ...]` with the rows `[K, ...]` at `index_K`; `rows` names the keys."""

    def put(new: np.ndarray, old: np.ndarray) -> np.ndarray:
        copy = old.copy()
        copy[index_K] = new
        return copy

    return tree_map(put, rows, whole)


class EngineBuilder:
    """Builds an engine, in place of a registered class; see `vector_env`."""

    def make_native(self, cfg_env: EasyDict, num_envs: int, num_threads: int) -> SameStepEngine:
        """Build the engine, which has to be reset with seeds first.

        Raises:
            ConfigError: the engine cannot be built with `env.kwargs`.
        """
        raise NotImplementedError

    def check(self, cfg_env: EasyDict) -> EnvSpec:
        """Return the spaces of an engine with one environment, which is reset once.

        Raises:
            ConfigError: see `make_native` and `check_lives`.
        """
        engine = self.make_native(cfg_env, 1, 1)
        try:
            _, info = engine.reset(seed=[0])
        finally:
            engine.close()
        check_lives(cfg_env, info)
        notes = (engine.note,) if engine.note else ()
        return EnvSpec(engine.single_observation_space, engine.single_action_space, stack_depth(cfg_env), notes)
