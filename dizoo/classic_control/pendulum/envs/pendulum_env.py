"""Pendulum under DI-engine's name; `type='gymnasium', env_id='Pendulum-v1'` is the same environment with no code."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TransformAction

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY

LARGEST_TORQUE = 2.0
NUM_TORQUES = 11


@ENV_REGISTRY.register("pendulum")
class PendulumEnv(gymnasium.Wrapper):
    """gymnasium's Pendulum: swing up and balance with a torque; every episode is truncated after 200 steps."""

    config: ClassVar = dict(
        env_id=Key("Pendulum-v1", "gymnasium id"),
        continuous=Key(True, "False: the action is one of eleven torques from -2 to 2"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        env = make_gymnasium(cfg_env)
        if not cfg_env.continuous:
            torques = np.linspace(-LARGEST_TORQUE, LARGEST_TORQUE, NUM_TORQUES, dtype=np.float32)
            env = TransformAction(env, lambda action: torques[action, None], Discrete(NUM_TORQUES))
        super().__init__(env)
