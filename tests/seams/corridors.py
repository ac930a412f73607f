"""A user's own module that registers an environment with gymnasium: a windy corridor, won at its end."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Corridor(gymnasium.Env[Any, Any]):
    """A walk from 0, or from `options["start"]`, to `length` within 12 steps, against a random wind.

    Args:
        length: distance to the end, which a curriculum may change.

    Attributes:
        visits: number of steps, float `[1]`, which the environment changes in place.
    """

    observation_space = Box(-1, 100, (2,), np.float32)
    action_space = Discrete(2)

    def __init__(self, length: float = 2.0) -> None:
        self.length = length
        self.visits = np.zeros(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position, self.time = float((options or {}).get("start", 0.0)), 0
        return self._observe(), {"start": self.position}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.visits += 1
        self.position = max(0.0, self.position + (1 if action else -1) - 0.2 * self.np_random.random())
        won = self.position >= self.length
        return (
            self._observe(),
            float(won),
            won,
            self.time >= 12,
            {"is_success": won, "length": self.length, "text": "a", "nested": {"a": 1}},
        )

    def _observe(self) -> np.ndarray:
        return np.array([self.position, self.length], np.float32)


gymnasium.register("Corridor-v0", f"{__name__}:Corridor")
