"""Which arrays are one observation, which are a batch, and which are neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.envs.spaces import observation_side
from ding_lite.trained.acting import AgentError, Observations

SPACES: dict[str, tuple[Any, Any]] = {
    "float64": (Box(-1, 1, (2,), np.float64), np.zeros(2)),
    "integers": (Box(0, 9, (3,), np.int64), np.array([1, 2, 3])),
    "number": (Box(-1, 1, (), np.float32), np.float32(0.5)),
    "label": (Discrete(5, start=-2), np.int64(-1)),
    "labels": (MultiDiscrete([2, 3]), np.array([1, 2])),
    "flags": (MultiBinary((2, 2)), np.array([[1, 0], [0, 1]], np.int8)),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_plain_observation_is_read_as_the_environment_would_convert_it(name: str) -> None:
    space, obs = SPACES[name]
    side, convert, _ = observation_side(space)
    reader = Observations(side, space)
    expected = np.asarray(convert(obs))
    for given in (obs, expected, obs.tolist(), torch.as_tensor(obs)):
        batch, number = reader.read(given)
        assert number is None
        np.testing.assert_array_equal(np.asarray(batch), expected[None])
        assert str(batch.dtype).removeprefix("torch.") == str(side.dtype)
    for given in (np.stack([obs] * 7), np.stack([expected] * 7)):
        batch, number = reader.read(given)
        assert number == 7
        np.testing.assert_array_equal(np.asarray(batch), np.stack([expected] * 7))


def test_images_are_read_in_the_layout_that_the_config_gives() -> None:
    space = Box(0, 255, (10, 12, 6), np.uint8)
    side, _, _ = observation_side(space, "channels_last")
    image = space.sample()
    turned = image.transpose(2, 0, 1)
    for given in (image, turned):
        np.testing.assert_array_equal(Observations(side, space, "channels_last").read(given)[0][0], turned)


def test_as_many_labels_as_choices_are_a_batch_and_as_many_floats_one_vector() -> None:
    reader = Observations(observation_side(Discrete(3))[0], Discrete(3))
    batch, number = reader.read(np.array([2, 0, 1]))
    assert number == 3
    np.testing.assert_array_equal(batch, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert reader.read(np.array([0.0, 1.0, 0.0]))[1] is None


@pytest.mark.parametrize(
    ("space", "obs", "said"),
    [
        (Discrete(4, start=1), 0, r"with the value 0 \(int64\), not in its space Discrete\(4, start=1\)"),
        (Discrete(4, start=1), torch.tensor([1, 5]), "with the value 5 .* not in its space Discrete"),
        (Box(0, 255, (3, 8, 8), np.uint8), np.full((3, 8, 8), 300), "with the value 300 .*, not in its space Box"),
        (Box(0, 255, (3, 8, 8), np.uint8), torch.full((2, 3, 8, 8), -1), "with the value -1 .*, not in its space Box"),
        (Box(0, 300, (3,), np.int64), [0, 1, 301], "with the value 301 .*, not in its space Box"),
        (Box(-1, 1, (2,)), [0.5, np.nan], "with nan in environment 0, expected finite numbers"),
        (Box(-1, 1, (2,)), torch.tensor([[0.5, torch.inf]]), "with inf in environment 0, expected finite numbers"),
        (Dict(a=Discrete(3), b=Box(-1, 1, (2,))), {"a": 3, "b": [0, 0]}, r"\['a'\] with the value 3 .*, not in its"),
    ],
)
def test_a_value_that_is_not_in_its_space_is_refused_as_the_environments_is(space: Any, obs: Any, said: str) -> None:
    with pytest.raises(AgentError, match=rf"^Observations ?{said}"):  # bytes would wrap around, labels be all zeros
        Observations(observation_side(space)[0], space).read(obs)


def test_a_mask_may_hold_any_numbers() -> None:
    space = Dict(a=Discrete(3), action_mask=MultiBinary(4))
    for mask in (
        [0, 0.5, 256, -1],
        np.array([0, 256, 1, 1]),
        torch.tensor([0.0, 0.5, 1, 1]),
        torch.tensor([0.0, 1e-300, 1, 1], dtype=torch.float64),  # 0 as float32
        torch.tensor([0.0, 0.5, 1, 1], dtype=torch.bfloat16),
        [False, True, True, True],
    ):
        batch, _ = Observations(observation_side(space)[0], space).read({"a": 1, "action_mask": mask})
        assert batch["action_mask"].tolist() == [[0, 1, 1, 1]]


def test_tensors_are_not_copied_to_arrays_and_keep_no_gradient() -> None:
    reader = Observations(Box(-1, 1, (2,)), None)
    batch, _ = reader.read(torch.zeros(4, 2, dtype=torch.float64, requires_grad=True))
    assert batch.dtype == torch.float32
    assert not batch.requires_grad
    with pytest.raises(AgentError, match="another kind of values"):
        Observations(Box(0, 255, (3, 8, 8), np.uint8), None).read(torch.zeros(3, 8, 8))


def test_nested_dicts_with_a_mask_stay_dicts() -> None:
    space = Dict({"a": Dict({"b": Box(-1, 1, (2,))}), "action_mask": MultiBinary(3)})
    reader = Observations(space, space)
    batch, number = reader.read({"a": {"b": [0, 1]}, "action_mask": np.array([True, False, True])})
    assert number is None
    np.testing.assert_array_equal(batch["a"]["b"], [[0, 1]])
    np.testing.assert_array_equal(batch["action_mask"], [[1, 0, 1]])
    wrong: Any
    for wrong in ({"a": {"b": [0, 1]}}, {"a": {"c": [0, 1]}, "action_mask": [1, 1, 1]}, np.zeros(2)):
        with pytest.raises(AgentError, match=r"Expected one observation, a dict of 'a\.b'"):
            reader.read(wrong)
