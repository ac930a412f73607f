"""simple_spread of PettingZoo's particle environments, with DI-engine's keys; it needs the extra `pettingzoo`.

Shapes: M agents, F features of what an agent observes, G features of the global state.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from dizoo.pettingzoo.envs.pettingzoo_env import PettingZooEnv


@ENV_REGISTRY.register("petting_zoo")
class SimpleSpreadEnv(PettingZooEnv):
    """mpe2's simple_spread_v3 with the reward and the global state of DI-engine's simple_spread_v2.

    An agent observes its velocity (2), its position (2), where the landmarks and the other agents are, relative to it,
    and what the others say (2 each). The global state `[G]` is the first agent's positions, then the velocities of all
    agents, and all that is said. The team's reward is the sum over the agents of the reward that all share and their
    own; mpe2's is half of that.
    """

    config: ClassVar = dict(
        env_id=Key("simple_spread_v2", "name of the game", choices=("simple_spread_v2",)),
        env_family=Key("mpe", "package of the game", choices=("mpe",)),
        team_reward=Key("sum", "the team's reward is the sum of those of its agents", choices=("sum",)),
        n_agent=Key(3, "M, the number of agents", low=2),
        n_landmark=Key(3, "number of landmarks, which is that of the agents"),
        max_cycles=Key(25, "env steps after which an episode is truncated", low=1),
        agent_obs_only=Key(False, "observations are a dict", choices=(False,)),
        agent_specific_global_state=Key(False, "global_state is `[M, F + G]`: what each agent observes, and the state"),
        continuous_actions=Key(False, "agents choose one of 5 actions", choices=(False,)),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        if cfg_env.n_landmark != cfg_env.n_agent:
            raise ConfigError(
                f"env.n_landmark: expected env.n_agent={cfg_env.n_agent}, as the game has it, got {cfg_env.n_landmark}."
            )
        self._specific = cfg_env.agent_specific_global_state
        options = dict(N=cfg_env.n_agent, max_cycles=cfg_env.max_cycles, **cfg_env.kwargs)
        game = dict(env_id="mpe2/simple_spread_v3", team_reward=cfg_env.team_reward, kwargs=options)
        super().__init__(EasyDict(game))
        shape = self._whole(np.zeros(self._shape, np.float32)).shape
        spaces: Any = self.observation_space
        spaces["global_state"] = Box(-np.inf, np.inf, shape, np.float32)

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play one action of each agent."""
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, 2 * reward, terminated, truncated, info

    def _observe(self, seen: dict[str, Any], infos: dict[str, Any]) -> dict[str, np.ndarray]:
        obs = super()._observe(seen, infos)
        return {**obs, "global_state": self._whole(obs["agent_state"])}

    def _whole(self, state_MF: np.ndarray) -> np.ndarray:
        said = 2 * (len(state_MF) - 1)
        parts = (state_MF[0, 2:-said], state_MF[:, :2].ravel(), state_MF[:, -said:].ravel())
        whole_G = np.concatenate(parts)
        if not self._specific:
            return whole_G
        return np.concatenate([state_MF, np.tile(whole_G, (len(state_MF), 1))], 1)
