"""Level-based foraging (Papoudakis et al. 2021, arXiv:2006.07869) for several agents; it needs the extra `lbforaging`.

Shapes: M agents, F features of what an agent observes, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from ding_lite.envs import make_gymnasium
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra


@ENV_REGISTRY.register("lbforaging")
class LBForagingEnv(gymnasium.Wrapper):
    """Agents of different levels pick up food in a grid; those who load it together need its level among them.

    An agent observes positions and levels of the food and of all agents, itself first, `agent_state` `[M, F]`;
    `global_state` `[M F]` is what all agents observe. The common reward is the sum of the agents' rewards; all food of
    an episode is worth 1. `action_mask` `[M, A]` forbids moves into food and walls, and loading where there is no food.
    The limit of 50 env steps truncates.
    """

    config: ClassVar = dict(
        env_id=Key("Foraging-8x8-2p-2f-coop-v3", "gymnasium id: grid, players, food; -coop: all must load each food"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        load_extra("lbforaging", "lbforaging", "This environment")  # the import registers the ids with gymnasium
        super().__init__(make_gymnasium(cfg_env))
        self._game: Any = self.env.unwrapped
        each: Any = self.env.observation_space
        shape = (len(each), *each[0].shape)
        options: Any = self.env.action_space
        self.action_space = MultiDiscrete([int(one.n) for one in options])
        self.observation_space = Dict(
            agent_state=Box(np.stack([one.low for one in each]), np.stack([one.high for one in each])),
            global_state=Box(-np.inf, np.inf, (int(np.prod(shape)),), np.float32),
            action_mask=MultiBinary((shape[0], int(options[0].n))),
        )

    def reset(self, **kwargs: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode with new places and levels."""
        seen, info = self.env.reset(**kwargs)
        return self._observe(seen), info

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play one action of each agent."""
        played: Any = self.env.step(action.tolist())
        seen, rewards, over, _, info = played
        eaten = not self._game.field.any()
        return self._observe(seen), float(sum(rewards)), eaten, bool(over) and not eaten, info

    def _observe(self, seen: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        states, mask = np.stack(seen), np.zeros((len(seen), self._game.action_space[0].n), np.int8)
        for agent, options in enumerate(zip(*self._game.get_valid_actions(), strict=True)):  # all combinations
            mask[agent, [option.value for option in set(options)]] = 1
        return {"agent_state": states, "global_state": states.ravel(), "action_mask": mask}
