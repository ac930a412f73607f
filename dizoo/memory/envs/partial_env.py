"""A gymnasium environment of which a policy sees only some numbers, for instance positions without velocities."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box

from ding_lite.envs import make_gymnasium
from ding_lite.envs.returned import fit
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("partial")
class PartialEnv(gymnasium.ObservationWrapper):
    """An environment with the chosen numbers of its observations."""

    config: ClassVar = dict(
        env_id=Key("Pendulum-v1", "gymnasium id of an environment whose observations are vectors"),
        observed=Key([0, 1], "places of the numbers to observe; of Pendulum-v1 the angle, without its velocity", low=0),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))
        self._observed = list(cfg_env.observed)
        space = self.env.observation_space
        assert isinstance(space, Box)
        self.observation_space = Box(space.low[self._observed], space.high[self._observed], dtype=space.dtype.type)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the chosen numbers."""
        return fit(observation, self.env.observation_space, "The whole observation")[self._observed]
