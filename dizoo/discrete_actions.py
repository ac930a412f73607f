"""Discrete actions for environments with continuous ones."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete


class DiscreteActions(gymnasium.ActionWrapper):
    """Replaces each number of an action by a choice among evenly spaced values, both bounds included.

    The action space becomes `MultiDiscrete`, with a choice for each dimension, or `Discrete` if there is one dimension.

    Args:
        env: an environment whose actions are a vector of bounded numbers.
        bins: number of values of each dimension, at least 2.
    """

    def __init__(self, env: gymnasium.Env, bins: int) -> None:
        super().__init__(env)
        box = env.action_space
        assert isinstance(box, Box)
        self._low, self._step, self._dtype = box.low, (box.high - box.low) / (bins - 1), box.dtype
        (size,) = box.shape
        self.action_space = Discrete(bins) if size == 1 else MultiDiscrete([bins] * size)

    def action(self, action: Any) -> np.ndarray:
        """Return the numbers for one action."""
        return (self._low + np.atleast_1d(action) * self._step).astype(self._dtype)
