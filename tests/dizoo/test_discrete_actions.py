from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ding_lite.config import compile_config
from ding_lite.envs import check_env
from dizoo.discrete_actions import DiscreteActions


class Echo(gymnasium.Env):
    """Returns the action that it gets as its observation."""

    def __init__(self, space: Box) -> None:
        self.action_space = self.observation_space = space

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return action, 0.0, False, False, {}


def test_choices_are_evenly_spaced_between_the_bounds_of_each_dimension() -> None:
    env = DiscreteActions(Echo(Box(np.array([-1, 0], np.float32), np.array([1, 8], np.float32))), 5)
    assert env.action_space == MultiDiscrete([5, 5])
    for action, expected in (([0, 0], [-1.0, 0.0]), ([4, 4], [1.0, 8.0]), ([1, 2], [-0.5, 4.0])):
        echoed = env.step(np.array(action))[0]
        assert echoed.tolist() == expected
        assert echoed.dtype == np.float32


@pytest.mark.parametrize("action", [3, np.int64(3), np.array(3)])
def test_one_dimension_is_a_single_choice(action: Any) -> None:
    env = DiscreteActions(Echo(Box(-2.0, 2.0, (1,), np.float32)), 5)
    assert env.action_space == Discrete(5)
    assert env.step(action)[0].tolist() == [1.0]


@pytest.mark.parametrize(("continuous", "space"), [(False, Discrete(11)), (True, Box(-1.0, 1.0, (1,)))])
def test_a_pendulum_that_is_not_continuous_has_eleven_torques(continuous: bool, space: Any) -> None:
    env = dict(type="pendulum", import_names=["dizoo.classic_control.pendulum.envs.pendulum_env"])
    kind = "td3_bc" if continuous else "bdq"
    cfg = compile_config((dict(env=dict(continuous=continuous)), dict(env=env, policy=dict(type=kind))))
    assert check_env(cfg.env).action_space == space
