"""Bipedal walker under DI-engine's name; needs the extra `box2d`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.envs.wrappers import apply_wrappers
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra

LEAST_REWARD = -10.0


@ENV_REGISTRY.register("bipedalwalker")
class BipedalWalkerEnv(gymnasium.Wrapper):
    """gymnasium's bipedal walker: walk to the end of the terrain; solved at a mean return of 300.

    Each episode has its own Box2D world. In gymnasium's version, remains of earlier episodes change the collisions, so
    an episode could not be repeated from its seed and actions.
    """

    config: ClassVar = dict(
        env_id=Key("BipedalWalker-v3", "gymnasium id"),
        rew_clip=Key(False, "learn from rewards of at least -10, a fall is worth -100; returns sum the true rewards"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("Box2D", "box2d", "This environment")
        env = make_gymnasium(cfg_env)
        if cfg_env.rew_clip:
            env = apply_wrappers(env, [dict(name="ClipReward", min_reward=LEAST_REWARD)])
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in a new world."""
        walker: Any = self.unwrapped
        walker.terrain, walker.world = [], type(walker.world)()  # without terrain, it destroys no bodies
        return super().reset(seed=seed, options=options)
