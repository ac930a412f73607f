"""FrozenLake under DI-engine's name: the agent crosses a frozen lake without falling into a hole."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY


@ENV_REGISTRY.register("frozen_lake")
class FrozenLakeEnv(gymnasium.Wrapper):
    """gymnasium's FrozenLake: 1 for reaching the goal, else 0. The policy sees the cell as a one-hot vector."""

    config: ClassVar = dict(
        env_id=Key("FrozenLake-v1", "gymnasium id"),
        desc=Key(None, "rows of a map, such as ['SFH', 'FFF', 'HFG']; None: the map of map_name", type=list),
        map_name=Key("4x4", "a map of gymnasium", choices=("4x4", "8x8")),
        is_slippery=Key(True, "the agent moves in the chosen direction with a probability of only a third"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        own: dict[str, Any] = {key: cfg_env[key] for key in ("desc", "map_name", "is_slippery")}
        super().__init__(make_gymnasium(EasyDict({**cfg_env, "kwargs": {**own, **cfg_env.kwargs}})))
