"""Mountain car under DI-engine's name."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("mountain_car")
class MountainCarEnv(gymnasium.Wrapper):
    """gymnasium's mountain car: reward -1 per step until the car is on the hill; truncated after 200 steps."""

    config: ClassVar = dict(
        env_id=Key("MountainCar-v0", "gymnasium id"),
        scale_obs=Key(False, "scale observations to -1..1; otherwise speeds are at most 0.07"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        env = make_gymnasium(cfg_env)
        one = np.ones(2, np.float32)
        super().__init__(gymnasium.wrappers.RescaleObservation(env, -one, one) if cfg_env.scale_obs else env)

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: str) -> VectorEnv:
        """Return `num_envs` environments as one torch program."""
        from dizoo.classic_control.mountain_car.envs.mtcar_torch import MountainCarTorch  # noqa: PLC0415  (it loads torch)

        return MountainCarTorch.from_config(cfg_env, num_envs, device, scale_obs=cfg_env.scale_obs)
