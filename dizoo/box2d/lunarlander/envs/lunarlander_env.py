"""Lunar lander under DI-engine's name; needs the extra `box2d`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY
from dizoo.extras import require


@ENV_REGISTRY.register("lunarlander")
class LunarLanderEnv(gymnasium.Wrapper):
    """gymnasium's lunar lander.

    Actions are continuous with `env_id='LunarLanderContinuous-v3'` or `kwargs=dict(continuous=True)`.
    """

    config: ClassVar = dict(
        env_id=Key("LunarLander-v3", "gymnasium id"),
    )
    plain_if: ClassVar[dict[str, Any]] = {}

    def __init__(self, cfg_env: EasyDict) -> None:
        require("Box2D", "box2d")
        super().__init__(make_gymnasium(cfg_env))
