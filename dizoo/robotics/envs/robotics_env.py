"""The environments with goals of gymnasium-robotics; they need the extra `robotics`."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra


@ENV_REGISTRY.register("robotics")
class RoboticsEnv(gymnasium.Wrapper):
    """Robots that reach and move objects, Shadow's hand, and mazes, for the replay buffer `her`."""

    config: ClassVar = dict(env_id=Key("FetchReach-v4", "gymnasium-robotics' id, such as 'PointMaze_UMaze-v3'"))

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("gymnasium_robotics", "robotics", "This environment")
        super().__init__(make_gymnasium(cfg_env))
