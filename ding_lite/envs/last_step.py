"""Observations that contain the last action and its reward, which policies with a memory can use."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, flatdim, flatten


class LastStep(gymnasium.Wrapper):
    """Adds the last action and its reward to the observations; in the first step of an episode they are zero.

    Vectors become longer: observation, action, reward. Other observations become dicts of `observation` and `last_step`
    (action, reward); a dict gets the key `last_step` in addition. Discrete actions are one-hot, and all actions and
    rewards are in the environment's units.

    In a config: `env.wrappers=["ding_lite.envs.last_step:LastStep"]`.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        space, self._size = env.observation_space, flatdim(env.action_space) + 1
        added = Box(-np.inf, np.inf, (self._size,), np.float32)
        self._joins = isinstance(space, Box) and len(space.shape) == 1
        if isinstance(space, Box) and self._joins:
            low, high = np.append(space.low, added.low), np.append(space.high, added.high)
            self.observation_space = Box(np.float32(low), np.float32(high), dtype=np.float32)
        else:
            parts = space.spaces if isinstance(space, Dict) else {"observation": space}
            self.observation_space = Dict({**parts, "last_step": added})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._add(obs, np.zeros(self._size, np.float32)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        last_action: Any = flatten(self.env.action_space, action)  # the environment may write into it
        obs, reward, terminated, truncated, info = self.env.step(action)
        return (
            self._add(obs, np.append(last_action, float(reward)).astype(np.float32)),
            reward,
            terminated,
            truncated,
            info,
        )

    def _add(self, obs: Any, last_step: np.ndarray) -> Any:
        if self._joins:
            return np.concatenate([obs, last_step], dtype=np.float32)
        return {**(obs if isinstance(obs, dict) else {"observation": obs}), "last_step": last_step}
