"""Connect Four of PettingZoo against a random player, or against a trained one; it needs the extra `pettingzoo`."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from ding_lite import load
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ENV_REGISTRY, load_extra

EPSILON = 0.1  # share of random moves of a trained opponent, so that its games differ


@functools.lru_cache(maxsize=16)
def load_opponent(path: str) -> Any:
    """Return the agent of a checkpoint; environments of one process share it."""
    return load(path, device="cpu")


@ENV_REGISTRY.register("connect_four")
class ConnectFourEnv(gymnasium.Env):
    """One side of the game: 1 for a win, -1 for a loss, 0 for a draw. The agent begins in half of the games.

    `observation` holds the agent's discs and the other player's, both as 6 x 7 zeros and ones; `action_mask` allows the
    columns that are not full. `info["won"]` of the last step is 1.0 or 0.0.

    Attributes:
        opponent: path of the checkpoint that plays the other side from the next game on; '': random play.
    """

    config: ClassVar = dict(
        env_id=Key("connect_four_v3", "name of the game"),
        opponent=Key("", "a run's directory, or a checkpoint, that plays the other side; '': random play"),
    )

    def __init__(self, cfg_env: EasyDict) -> None:
        module = load_extra("pettingzoo.classic.connect_four.connect_four", "pettingzoo", "This environment")
        self._game, self._side = module.raw_env(), ""
        self.opponent, self._agent = cfg_env.opponent, None
        self.action_space = Discrete(7)
        self.observation_space = Dict(observation=Box(0.0, 1.0, (84,), np.float32), action_mask=MultiBinary(7))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start a game; the other player may have moved already."""
        super().reset(seed=seed)
        self._game.reset()
        self._agent = load_opponent(self.opponent) if self.opponent else None
        self._side = self._game.possible_agents[int(self.np_random.integers(2))]
        self._play_other()
        return self._observe(self._side), {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Drop a disc into a column, and let the other player answer."""
        self._game.step(int(action))
        self._play_other()
        reward, over = float(self._game.rewards[self._side]), self._is_over()
        return self._observe(self._side), reward, over, False, {"won": float(reward > 0)} if over else {}

    def _is_over(self) -> bool:
        return any(self._game.terminations.values())

    def _play_other(self) -> None:
        other = self._game.agent_selection
        if other != self._side and not self._is_over():
            obs = self._observe(other)
            column = self.np_random.choice(np.flatnonzero(obs["action_mask"]))
            if self._agent is not None and self.np_random.random() >= EPSILON:
                column = self._agent.act(obs)
            self._game.step(int(column))

    def _observe(self, side: str) -> dict[str, np.ndarray]:
        seen = self._game.observe(side)
        board = np.moveaxis(seen["observation"], -1, 0).ravel().astype(np.float32)
        return {"observation": board, "action_mask": seen["action_mask"]}
