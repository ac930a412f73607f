"""Car racing under DI-engine's name; needs the extra `box2d`."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra


@ENV_REGISTRY.register("carracing")
class CarRacingEnv(gymnasium.Wrapper):
    """gymnasium's car racing: images of 96 x 96 pixels; the car steers, accelerates and brakes."""

    config: ClassVar = dict(
        env_id=Key("CarRacing-v3", "gymnasium id"),
        continuous=Key(False, "whether actions are three numbers instead of one of five moves"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("Box2D", "box2d", "This environment")
        kwargs = {"continuous": cfg_env.continuous} | dict(cfg_env.kwargs)
        super().__init__(make_gymnasium(EasyDict(dict(cfg_env), kwargs=kwargs)))
