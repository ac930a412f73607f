"""Acrobot under DI-engine's name; `type='gymnasium', env_id='Acrobot-v1'` is the same environment with no code."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("acrobot")
class AcroBotEnv(gymnasium.Wrapper):
    """gymnasium's Acrobot: reward -1 per step until the tip is above the line; truncated after 500 steps."""

    config: ClassVar = dict(
        env_id=Key("Acrobot-v1", "gymnasium id"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))

    @classmethod
    def make_batched(cls, cfg_env: EasyDict, num_envs: int, device: str) -> VectorEnv:
        """Return `num_envs` environments as one torch program."""
        from dizoo.classic_control.acrobot.envs.acrobot_torch import AcrobotTorch  # noqa: PLC0415  (it loads torch)

        return AcrobotTorch.from_config(cfg_env, num_envs, device)
