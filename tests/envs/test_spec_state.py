"""Spaces come back from the plain values that a checkpoint holds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.spaces import EnvSpec
from ding_lite.envs.spec_state import load_spec, spec_state

IMAGE = Box(0, 255, (4, 84, 84), np.uint8)
ACTIONS = [
    Discrete(3, start=2),
    MultiDiscrete([2, 5], start=[1, -1]),
    MultiBinary((2, 3)),
    Box(np.array([-2.5, 0.1], np.float32), np.array([np.inf, 7.0], np.float32)),
    Box(-3, 9, (2,), np.int16),
    Dict(action_type=Discrete(4), action_args=Box(-1e-3, 3.0, (2,), np.float64)),
]
OBSERVATIONS = [IMAGE, Dict(camera=IMAGE, body=Dict(joints=Box(-np.inf, np.inf, (3,)))), Box(-1, 1, (), np.float32)]


@pytest.mark.parametrize("action", ACTIONS, ids=str)
@pytest.mark.parametrize("observation", OBSERVATIONS, ids=["image", "dict", "number"])
def test_a_spec_comes_back_from_plain_values(action: Space[object], observation: Space[object]) -> None:
    sides = (ActionUnits(action, act_scale) for act_scale in (True, False))
    for act_scale, side in zip((True, False), sides, strict=True):
        spec = EnvSpec(observation, side.space, 4, (), action, None if observation is IMAGE else Discrete(7))
        text = json.dumps(spec_state(spec))
        assert len(text) < 1000, "the bounds of an image are two numbers"
        assert load_spec(json.loads(text), act_scale) == spec


def test_a_space_of_another_kind_is_not_described() -> None:
    spec = EnvSpec(Dict(text=Text(5)), Discrete(2), 0, (), Discrete(2))
    assert spec_state(spec) == {}
    assert load_spec({}, True) is None
