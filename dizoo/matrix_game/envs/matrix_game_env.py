"""Games of two agents whose common reward is an entry of a matrix: the two-step, the climbing and the penalty game."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY

GAMES = ("TwoStep-v0", "Climbing-v0", "Penalty-v0")


@ENV_REGISTRY.register("matrix_game")
class MatrixGameEnv(gymnasium.Env):
    """Two agents choose a row and a column at the same time; the entry of a matrix is the reward of both.

    * TwoStep-v0 (Rashid et al. 2018, arXiv:1803.11485, section 5): the first agent chooses one of two matrices, which
      the agents then play once. One pays 7 for everything, the other 8 at best.
    * Climbing-v0 and Penalty-v0 (Claus & Boutilier 1998): the same matrix is played `repeats` times, 25 as in
      Papoudakis et al. 2021, arXiv:2006.07869. The best entry, 11 or 10, is next to heavy losses if the agents do not
      meet.

    All agents see the same, a one-hot vector that says which matrix is played.
    """

    config: ClassVar = dict(
        env_id=Key(GAMES[0], "name of the game", choices=GAMES),
        penalty=Key(0.0, "k, the reward of Penalty-v0 if the agents choose opposite corners", high=0),
        repeats=Key(25, "env steps of an episode of Climbing-v0 and Penalty-v0", low=1),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        k = cfg_env.penalty
        self._two_step = cfg_env.env_id == "TwoStep-v0"
        self._repeats = cfg_env.repeats
        matrices = {
            "TwoStep-v0": [[[0, 0], [0, 0]], [[7, 7], [7, 7]], [[0, 1], [1, 8]]],
            "Climbing-v0": [[[11, -30, 0], [-30, 7, 0], [0, 6, 5]]],
            "Penalty-v0": [[[k, 0, 10], [0, 2, 0], [10, 0, k]]],
        }
        self._matrices = np.array(matrices[cfg_env.env_id], np.float64)
        states, _, actions = self._matrices.shape
        self.observation_space = Dict(
            agent_state=Box(0, 1, (2, states), np.float32),
            global_state=Box(0, 1, (states,), np.float32),
            action_mask=MultiBinary((2, actions)),
        )
        self.action_space = MultiDiscrete([actions] * 2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin with the first matrix."""
        super().reset(seed=seed)
        self._step, self._state = 0, 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Play the matrix; the first step of TwoStep-v0 chooses the next one."""
        self._step += 1
        reward = float(self._matrices[self._state, action[0], action[1]])
        over = self._two_step and self._state > 0
        if self._two_step and not over:
            self._state = 1 + int(action[0])
        return self._observe(), reward, over, not self._two_step and self._step == self._repeats, {}

    def _observe(self) -> dict[str, np.ndarray]:
        state = np.eye(len(self._matrices), dtype=np.float32)[self._state]
        mask = np.ones((2, self._matrices.shape[-1]), np.int8)
        return {"agent_state": np.stack([state, state]), "global_state": state, "action_mask": mask}
