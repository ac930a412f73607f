"""Observations of several arrays: the encoder, and the models that use it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.model import create_encoder
from ding_lite.model.encoders import feature_size
from ding_lite.utils import ConfigError
from tests.model.models import MODELS, backward, build, run

SHAPE = dict(camera=[1, 36, 36], body=dict(joints=5, goal=[2]))
SIZES = [4, 6, 8]


def draw(batch_size: int = 3) -> dict[str, Any]:
    body = {"joints": torch.randn(batch_size, 5), "goal": torch.randn(batch_size, 2)}
    camera = torch.randint(256, (batch_size, 1, 36, 36), dtype=torch.uint8)
    return {"camera": camera, "body": body, "ignored": torch.zeros(batch_size)}


def test_each_part_is_encoded_and_one_layer_joins_them() -> None:
    encoder: Any = create_encoder(SHAPE, SIZES, "relu")
    obs = draw()
    body, camera = encoder.encoders  # in the order of the alphabet
    goal, joints = body.encoders
    inner = torch.cat([goal(obs["body"]["goal"]), joints(obs["body"]["joints"])], dim=1)
    features = torch.cat([torch.relu(body.join(inner)), camera(obs["camera"])], dim=1)
    torch.testing.assert_close(encoder(obs), torch.relu(encoder.join(features)))
    assert encoder(obs).shape == (3, 8)


def test_the_order_of_keys_does_not_matter() -> None:
    turned = dict(body=dict(goal=[2], joints=5), camera=[1, 36, 36])
    first, second = create_encoder(SHAPE, SIZES, "relu"), create_encoder(turned, SIZES, "relu")
    second.load_state_dict(first.state_dict())
    obs = draw()
    assert torch.equal(first(obs), second(dict(reversed(obs.items()))))


def test_every_part_changes_the_features_and_learns() -> None:
    encoder, obs = create_encoder(SHAPE, SIZES, "tanh"), draw()
    encoder(obs).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in encoder.parameters())


def test_without_layers_the_features_are_the_vectors_themselves() -> None:
    shape = dict(joints=5, goal=[2])
    obs = draw()["body"]
    assert torch.equal(create_encoder(shape, (), "relu")(obs), torch.cat([obs["goal"], obs["joints"]], dim=1))
    assert feature_size(shape, ()) == feature_size(7, ()) == 7
    assert feature_size(SHAPE, SIZES) == 8
    with pytest.raises(ConfigError, match="for images must be the channels"):
        create_encoder(SHAPE, (), "relu")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_an_image_and_a_vector(name: str) -> None:
    torch.manual_seed(0)
    shape = {"image": [3, 44, 44], "vector": 5}
    model = build(name, obs_shape=shape, encoder_hidden_size_list=[4, 4, 4, 8], activation="tanh")
    obs = {"image": torch.randint(256, (3, 3, 44, 44), dtype=torch.uint8), "vector": torch.randn(3, 5)}
    outputs = run(model, obs)
    backward(outputs)
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    for part, other in (("image", 255 - obs["image"]), ("vector", obs["vector"] + 1)):
        torch.manual_seed(0)
        changed = run(model, {**obs, part: other})
        assert not all(map(torch.equal, outputs, changed))


@pytest.mark.parametrize("name", ["continuous_bc", "continuous_qac", "discrete_qac", "hybrid_qac", "qac_dist"])
def test_a_model_without_layers_of_its_own_says_that_an_image_needs_them(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^policy\.model\.encoder_hidden_size_list for images must be the .*got \[\]"
    ):
        build(name, obs_shape={"image": [3, 44, 44], "vector": 5})
    build(name, obs_shape={"left": 3, "right": [5]})
