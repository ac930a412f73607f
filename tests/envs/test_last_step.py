from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ding_lite.envs.last_step import LastStep
from tests.toys import Toy

VECTOR, IMAGE = Box(-1.0, 1.0, (2,), np.float32), Box(0, 255, (3, 8, 8), np.uint8)


class Rewarding(Toy):
    """Pays 1, 2, 3 ... and writes into its action."""

    def __init__(self, actions: gymnasium.Space[Any], space: gymnasium.Space[Any]) -> None:
        self.action_space, self.observation_space, self._paid = actions, space, 0

    def observe(self) -> Any:
        if isinstance(self.observation_space, Dict):
            return {key: np.zeros(part.shape or (), part.dtype) for key, part in self.observation_space.items()}
        return super().observe()

    def play(self, action: Any) -> Any:
        self._paid += 1
        if isinstance(action, np.ndarray):
            action[...] = 0
        return float(self._paid), False, False, {}


@pytest.mark.parametrize("space", [VECTOR, IMAGE, Dict(seen=VECTOR)], ids=["vector", "image", "dict"])
@pytest.mark.parametrize(
    ("actions", "action", "expected"),
    [
        (Discrete(3, start=1), 3, [0, 0, 1]),
        (MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (Box(-2.0, 2.0, (2,)), np.array([1.5, -1.0], np.float32), [1.5, -1.0]),
    ],
    ids=["discrete", "multi_discrete", "box"],
)
def test_observations_contain_the_last_action_and_its_reward(
    space: gymnasium.Space[Any], actions: gymnasium.Space[Any], action: Any, expected: list[float]
) -> None:
    env = LastStep(Rewarding(actions, space))

    def last(obs: Any) -> list[float]:
        assert env.observation_space.contains(obs)
        return list(obs[2:] if space is VECTOR else obs["last_step"])

    assert last(env.reset()[0]) == [0.0] * (len(expected) + 1)
    for reward in (1.0, 2.0):
        assert last(env.step(np.copy(action) if isinstance(action, np.ndarray) else action)[0]) == [*expected, reward]
    assert last(env.reset()[0]) == [0.0] * (len(expected) + 1)
