"""A user's own module that registers an environment with gymnasium: a windy corridor, won at its end."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from tests.toys import Toy


class Corridor(Toy):
    """A walk from 0, or from `options["start"]`, to `length` within 12 steps, against a random wind.

    Args:
        length: distance to the end, which a curriculum may change.

    Attributes:
        visits: number of steps, float `[1]`, which the environment changes in place.
    """

    observation_space = Box(-1, 100, (2,), np.float32)

    def __init__(self, length: float = 2.0) -> None:
        self.length = length
        self.visits = np.zeros(1)

    def begin(self) -> Any:
        self.position = float((self.options or {}).get("start", 0.0))
        return {"start": self.position}

    def play(self, action: Any) -> Any:
        self.visits += 1
        self.position = max(0.0, self.position + (1 if action else -1) - 0.2 * self.np_random.random())
        won = self.position >= self.length
        info = {"is_success": won, "length": self.length, "text": "a", "nested": {"a": 1}}
        return float(won), won, self.count >= 12, info

    def observe(self) -> Any:
        return np.array([self.position, self.length], np.float32)


gymnasium.register("Corridor-v0", f"{__name__}:Corridor")
