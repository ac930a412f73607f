"""The base of the toy environments of all tests."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Toy(gymnasium.Env[Any, Any]):
    """Two actions without effect; zeros are seen. A subclass overrides what it needs.

    Args:
        cfg_env: the keys `env` of the config, which nothing here reads.
        attributes: attributes of the instance.

    Attributes:
        count: env steps of the episode.
        seen: what is observed, None for zeros.
    """

    observation_space: gymnasium.Space[Any] = Box(0, 1, (1,), np.float32)
    action_space: gymnasium.Space[Any] = Discrete(2)
    count = 0
    seen: Any = None

    def __init__(self, cfg_env: Any = None, **attributes: Any) -> None:
        vars(self).update(attributes)

    def begin(self) -> Any:
        """Begin an episode; return its `info`, or None for an empty one."""

    def observe(self) -> Any:
        zeros = np.zeros(self.observation_space.shape or (), self.observation_space.dtype)
        return zeros if self.seen is None else self.seen

    def play(self, action: Any) -> Any:
        """Take a step; return reward, terminated, truncated and info, of which the last ones may be left out."""
        return (0.0,)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.options = 0, options
        info = self.begin()
        return self.observe(), info or {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.count += 1
        given: tuple[Any, ...] = self.play(action)
        rest: tuple[Any, ...] = (False, False, {})
        reward, terminated, truncated, info = given + rest[len(given) - 1 :]
        return self.observe(), reward, terminated, truncated, info
