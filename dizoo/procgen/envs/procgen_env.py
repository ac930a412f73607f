"""The games of Procgen (Cobbe et al. 2020, arXiv:1912.01588); they need the extra `procgen`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra

# The games, and Procgen's limits of env steps.
LIMITS = dict.fromkeys(
    ("caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot", "heist", "jumper", "miner", "ninja"), 1000
) | dict(bigfish=6000, bossfight=4000, leaper=500, maze=500, plunder=4000, starpilot=1000)


@ENV_REGISTRY.register("procgen")
class ProcgenEnv(gymnasium.Env):
    """A game whose levels are generated; observations are images `[64, 64, 3]`.

    Procgen goes on with the next level at once and does not show the last image of a level: where an episode ends, the
    image before is returned again. The limit of env steps truncates. `env.kwargs` are options of Procgen, such as
    `distribution_mode="easy"`.
    """

    config: ClassVar = dict(
        env_id=Key("coinrun", "name of the game", choices=tuple(LIMITS)),
        start_level=Key(0, "number of the first level", low=0),
        num_levels=Key(0, "how many levels there are; 0: all", low=0),
        control_level=Key(True, "False: all levels, whatever start_level and num_levels are"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        self._make = load_extra("procgen", "procgen", "This environment").ProcgenGym3Env
        levels = {key: cfg_env[key] if cfg_env.control_level else 0 for key in ("start_level", "num_levels")}
        self._options = dict(env_name=cfg_env.env_id, num_threads=0, **levels, **cfg_env.kwargs)
        self._limit, self._steps = LIMITS[cfg_env.env_id], 0
        self._game: Any = None
        self.metadata = {"max_episode_steps": self._limit}
        self.observation_space, self.action_space = Box(0, 255, (64, 64, 3), np.uint8), Discrete(15)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a level. A seed is an argument of Procgen's constructor, which takes a millisecond."""
        super().reset(seed=seed)
        self.close()
        self._game = self._make(num=1, rand_seed=int(self.np_random.integers(2**31)), **self._options)
        self._steps, self._image = 0, self._game.observe()[1]["rgb"][0].copy()
        return self._image, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a step of the level."""
        self._steps += 1
        self._game.act(np.array([action]))
        reward, seen, first = self._game.observe()
        over, truncated = bool(first[0]), self._steps >= self._limit
        self._image = self._image if over else seen["rgb"][0].copy()
        return self._image, float(reward[0]), over and not truncated, over and truncated, {}

    def close(self) -> None:
        """Free Procgen's memory."""
        if self._game is not None:
            self._game.close()
        self._game = None
