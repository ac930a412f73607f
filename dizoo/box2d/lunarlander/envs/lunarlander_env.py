"""Lunar lander under DI-engine's name; needs the extra `box2d`."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, load_extra


@ENV_REGISTRY.register("lunarlander")
class LunarLanderEnv(gymnasium.Wrapper):
    """gymnasium's lunar lander.

    Actions are continuous with `env_id='LunarLanderContinuous-v3'`, as in DI-engine, or with `continuous=True`.

    Raises:
        ConfigError: `continuous` contradicts the id, or Box2D is not installed.
    """

    config: ClassVar = dict(
        env_id=Key("LunarLander-v3", "gymnasium id"),
        continuous=Key(
            None, "whether actions are the power of both engines instead of one of four; None: see env_id", type=bool
        ),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("Box2D", "box2d", "This environment")
        kwargs = dict(cfg_env.kwargs)
        if cfg_env.continuous is not None:
            if not cfg_env.continuous and "Continuous" in cfg_env.env_id:
                raise ConfigError(
                    f"env.continuous=False contradicts env.env_id '{cfg_env.env_id}': set env_id to 'LunarLander-v3'."
                )
            kwargs = {"continuous": cfg_env.continuous} | kwargs
        super().__init__(make_gymnasium(EasyDict(dict(cfg_env), kwargs=kwargs)))
