"""Pendulum under DI-engine's name; `type='gymnasium', env_id='Pendulum-v1'` is the same environment with no code."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict
from gymnasium.vector import VectorEnv

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY
from dizoo.discrete_actions import DiscreteActions

NUM_TORQUES = 11  # with continuous=False


@ENV_REGISTRY.register("pendulum")
class PendulumEnv(gymnasium.Wrapper):
    """gymnasium's Pendulum: swing up and balance with a torque; every episode is truncated after 200 steps."""

    config: ClassVar = dict(
        env_id=Key("Pendulum-v1", "gymnasium id"),
        continuous=Key(True, "False: choose among 11 torques, for policies with discrete actions"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        env = make_gymnasium(cfg_env)
        super().__init__(env if cfg_env.continuous else DiscreteActions(env, NUM_TORQUES))

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: str) -> VectorEnv:
        """Return `num_envs` environments as one torch program."""
        from dizoo.classic_control.pendulum.envs.pendulum_torch import PendulumTorch  # noqa: PLC0415  (it loads torch)

        return PendulumTorch.from_config(cfg_env, num_envs, device)


@ENV_REGISTRY.register("mbpendulum")
class MBPendulumEnv(PendulumEnv):
    """`PendulumEnv` under the name that DI-engine has for world models; no state is terminal."""


class Parts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Pendulum that shows a dict of the `angle`, as its cosine and sine, and of its `velocity`, in rad/s."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        low, high = (getattr(env.observation_space, end) for end in ("low", "high"))
        self.observation_space = Dict(angle=Box(low[:2], high[:2]), velocity=Box(low[2:], high[2:]))

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"angle": observation[:2], "velocity": observation[2:]}
