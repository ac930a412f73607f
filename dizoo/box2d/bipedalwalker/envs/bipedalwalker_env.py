"""Bipedal walker under DI-engine's name; needs the extra `box2d`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY
from dizoo.extras import require

LEAST_REWARD = -10.0


@ENV_REGISTRY.register("bipedalwalker")
class BipedalWalkerEnv(gymnasium.Wrapper):
    """gymnasium's bipedal walker: walk to the end of the terrain; solved at a mean return of 300."""

    config: ClassVar = dict(
        env_id=Key("BipedalWalker-v3", "gymnasium id"),
        rew_clip=Key(False, "train with a reward of at least -10, instead of -100 for a fall"),
    )
    plain_if: ClassVar[dict[str, Any]] = {"rew_clip": False}

    def __init__(self, cfg_env: EasyDict) -> None:
        require("Box2D", "box2d")
        super().__init__(make_gymnasium(cfg_env))
        self._rew_clip = cfg_env.rew_clip
