"""Taxi under DI-engine's name: the agent picks up a passenger and drives to the destination."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY

CELLS, PLACES, DESTINATIONS = 25, 5, 4  # the fifth place of the passenger is the taxi


@ENV_REGISTRY.register("taxi")
class TaxiEnv(gymnasium.ObservationWrapper):
    """gymnasium's Taxi: -1 per step, -10 for a wrong stop, 20 at the destination.

    The 500 states are shown as three one-hot vectors, joined: the taxi's cell, the passenger's place, the destination.
    """

    config: ClassVar = dict(
        env_id=Key("Taxi-v4", "gymnasium id"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))
        self.observation_space = gymnasium.spaces.Box(0, 1, (CELLS + PLACES + DESTINATIONS,), np.float32)

    def observation(self, state: Any) -> np.ndarray:
        row, column, place, destination = self.unwrapped.decode(state)  # type: ignore[attr-defined]  # of gymnasium's
        obs = np.zeros(CELLS + PLACES + DESTINATIONS, np.float32)
        obs[[5 * row + column, CELLS + place, CELLS + PLACES + destination]] = 1
        return obs
