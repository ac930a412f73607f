"""A game with PettingZoo's parallel API whose agents have different spaces, and leave it at different times."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Space

SPACES: dict[str, tuple[Space[Any], Space[Any]]] = {
    "scout": (Box(-1, 1, (2,)), Discrete(2)),
    "guard": (Dict(observation=Box(-1, 1, (2, 2)), action_mask=MultiBinary(4)), Discrete(4, start=5)),
    "clerk": (Discrete(3), Discrete(3)),
}


class SmallGame:
    """The scout leaves after one step. The others end with the third step, by a limit if `limit`.

    Args:
        limit: whether the game is cut instead of ending.
        continuous: whether actions are continuous.
        seen: what agents observe instead.
        told: masks that their infos hold.
    """

    metadata: dict[str, Any] = {"name": "small_game"}
    possible_agents = list(SPACES)

    def __init__(self, limit: bool = False, continuous: bool = False, seen: Any = None, told: Any = None) -> None:
        self._limit, self._continuous, self._seen, self._told = limit, continuous, seen or {}, told or {}
        self.played: list[dict[str, int]] = []

    def observation_space(self, agent: str) -> Space[Any]:
        return SPACES[agent][0]

    def action_space(self, agent: str) -> Space[Any]:
        return Box(-1, 1, (2,)) if self._continuous else SPACES[agent][1]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.agents, self._step = list(SPACES), 0
        return self._observe(), self._infos()

    def step(self, actions: dict[str, int]) -> tuple[Any, ...]:
        assert actions.keys() == set(self.agents)
        self.played.append(actions)
        self._step += 1
        over, last = {agent: agent == "scout" for agent in self.agents}, self._step == 3
        ends = {agent: (last and not self._limit) or left for agent, left in over.items()}
        cuts = dict.fromkeys(self.agents, last and self._limit)
        seen, rewards = self._observe(), {agent: float(len(agent) + self._step) for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (ends[agent] or cuts[agent])]
        return seen, rewards, ends, cuts, self._infos()

    def close(self) -> None:
        self.agents = []

    def _observe(self) -> dict[str, Any]:
        board = np.full((2, 2), 0.25 * self._step, np.float32)
        seen = {"scout": np.array([0.5, -0.5], np.float32), "clerk": 2}
        seen |= {"guard": {"observation": board, "action_mask": np.array([0, 1, 0, 1], np.int8)}, **self._seen}
        return {agent: seen[agent] for agent in self.agents}

    def _infos(self) -> dict[str, Any]:
        return {agent: {"action_mask": self._told[agent]} if agent in self._told else {} for agent in self.agents}


parallel_env = SmallGame
