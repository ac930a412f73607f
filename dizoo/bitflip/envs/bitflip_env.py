"""Bit flipping (Andrychowicz et al. 2017, arXiv:1707.01495, section 3.1): turn bits into others, one in each step."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("bitflip")
class BitFlipEnv(gymnasium.Env):
    """Action i flips bit i; the reward is 1 when all bits are those of the goal, which ends the episode, else 0.

    State and goal are drawn at random and differ. An episode has at most `n_bits` steps. Chance finds the goal of n
    bits within one with a probability of less than n / 2^n.
    """

    config: ClassVar = dict(
        env_id=Key("BitFlip", "name of the task, for messages"),
        n_bits=Key(5, "number of bits, of actions, and largest number of steps", low=1, high=1000),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        self._size = cfg_env.n_bits
        bits = Box(0, 1, (self._size,), np.float32)
        self.observation_space = Dict(observation=bits, achieved_goal=bits, desired_goal=bits)
        self.action_space = Discrete(self._size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, self._goal = self.np_random.integers(2, size=(2, self._size)).astype(np.float32)
        while (self._state == self._goal).all():
            self._goal = self.np_random.integers(2, size=self._size).astype(np.float32)
        self._step = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._state[action] = 1 - self._state[action]
        self._step += 1
        reached = bool(self.compute_terminated(self._state, self._goal, {}))
        truncated = self._step == self._size and not reached
        return self._observation(), float(reached), reached, truncated, {"is_success": reached}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return the rewards `[...]` of steps that led to `achieved_goal` `[..., n_bits]`."""
        return self.compute_terminated(achieved_goal, desired_goal, info).astype(np.float32)

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Return whether these steps reached the goal, bool `[...]`."""
        return (achieved_goal == desired_goal).all(-1)

    def _observation(self) -> dict[str, np.ndarray]:
        bits = self._state.copy()
        return {"observation": bits, "achieved_goal": bits, "desired_goal": self._goal.copy()}
