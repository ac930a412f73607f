"""MiniGrid's rooms under DI-engine's name, with vectors as observations; they need the extra `minigrid`."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra


@ENV_REGISTRY.register("minigrid")
class MiniGridEnv(gymnasium.Wrapper):
    """One MiniGrid room; `info` and the limit of steps are those of the room."""

    config: ClassVar = dict(
        env_id=Key("MiniGrid-Empty-8x8-v0", "gymnasium id"),
        full_obs=Key(False, "observe the whole grid instead of the 7 x 7 cells in front of the agent"),
        move_bonus=Key(False, "add to rewards how much nearer a step came to the lower right corner, see `MoveBonus`"),
        onehot_obs=Key(False, "observe cells and direction as zeros and ones; else cells and mission as numbers"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        # The import registers the ids with gymnasium.
        wrappers = load_extra("minigrid.wrappers", "minigrid", "This environment")
        env = make_gymnasium(cfg_env)
        env = MoveBonus(env) if cfg_env.move_bonus else env
        env = wrappers.FullyObsWrapper(env) if cfg_env.full_obs else env
        env = OneHotObservation(env) if cfg_env.onehot_obs else wrappers.FlatObsWrapper(env)
        super().__init__(gymnasium.wrappers.DtypeObservation(env, np.float32))


class MoveBonus(gymnasium.Wrapper):
    """Adds the part of the grid's diagonal by which a step came nearer to the cell where most rooms have their goal."""

    def _distance(self) -> float:
        room: Any = self.unwrapped
        return math.dist(room.agent_pos, (room.width - 2, room.height - 2))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        before, room = self._distance(), cast("Any", self.unwrapped)
        obs, reward, terminated, truncated, info = self.env.step(action)
        bonus = (before - self._distance()) / math.hypot(room.width, room.height)
        return obs, float(reward) + bonus, terminated, truncated, info


class OneHotObservation(gymnasium.ObservationWrapper):
    """Turns cells `[W, H, 3]` (object, colour, state) and the agent's direction into one vector of zeros and ones."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        constants = load_extra("minigrid.core.constants", "minigrid", "This environment")
        # the state of a cell is that of a door, or the direction of the agent if the whole grid is observed
        kinds = (len(constants.OBJECT_TO_IDX), len(constants.COLOR_TO_IDX), len(constants.DIR_TO_VEC))
        self._offset = np.cumsum((0, *kinds[:-1]))
        self._eye_cell, self._eye_direction = np.eye(sum(kinds), dtype=np.uint8), np.eye(kinds[-1], dtype=np.uint8)
        width, height, _ = env.observation_space["image"].shape  # type: ignore[index]  # a Dict in every room
        self.observation_space = gymnasium.spaces.Box(0, 1, (width * height * sum(kinds) + kinds[-1],), np.uint8)

    def observation(self, obs: dict[str, Any]) -> np.ndarray:
        cells = self._eye_cell[obs["image"] + self._offset].sum(axis=2, dtype=np.uint8)
        return np.concatenate([cells.ravel(), self._eye_direction[obs["direction"]]])
