"""Random actions: their share, their seed, and masks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.imitation.random_actions import RandomActions


class Echo(gymnasium.Env[Any, Any]):
    """Keeps its actions; allows 1 and 3 of 0 to 3."""

    def __init__(self, masked: bool = False) -> None:
        self.action_space = Discrete(4)
        self.observation_space = Dict(action_mask=Box(0, 1, (4,), np.int8)) if masked else Box(0, 1, (4,), np.int8)
        self._masked, self.played = masked, list[int]()

    def _observe(self) -> Any:
        mask = np.array([0, 1, 0, 1], np.int8)
        return {"action_mask": mask} if self._masked else mask

    def reset(self, **options: Any) -> Any:
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.played.append(int(action))
        return self._observe(), 0.0, False, False, {}


def play(share: float, masked: bool = False, seed: int = 0) -> list[int]:
    """Return what is played of 1000 actions, all of them 1."""
    inner = Echo(masked)
    env = RandomActions(inner, share)
    env.reset(seed=seed)
    for _ in range(1000):
        env.step(1)
    return inner.played


def test_a_share_of_the_actions_is_random() -> None:
    assert play(0.0) == [1] * 1000
    other = sum(action != 1 for action in play(0.4))
    assert 240 < other < 360  # 300 = 1000 * 0.4 * 3/4, four deviations of 14.5
    assert set(play(1.0)) == {0, 1, 2, 3}


def test_an_episodes_seed_is_that_of_its_random_actions() -> None:
    assert play(0.5) == play(0.5)
    assert play(0.5) != play(0.5, seed=1)


def test_forbidden_actions_are_not_played() -> None:
    assert set(play(0.9, masked=True)) == {1, 3}
