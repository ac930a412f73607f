"""CliffWalking under DI-engine's name: the agent walks along a cliff, and starts again after a fall."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("cliffwalking")
class CliffWalkingEnv(gymnasium.Wrapper):
    """gymnasium's CliffWalking: -1 per step, -100 for a fall. The policy sees the cell as a one-hot vector."""

    config: ClassVar = dict(
        env_id=Key("CliffWalking-v1", "gymnasium id"),
        max_episode_steps=300,  # gymnasium has no limit, and a policy may never reach the goal
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(make_gymnasium(cfg_env))
