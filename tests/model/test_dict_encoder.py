"""Observations of several arrays: the encoder, and the models that use it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import DQN, PG, QAC, QVAC, VAC, create_encoder
from ding_lite.model.dict_encoder import feature_size
from ding_lite.utils import ConfigError

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


@pytest.mark.parametrize("kind", ["dqn", "vac", "pg", "qac", "qvac"])
def test_every_model_accepts_a_dict_of_shapes(kind: str) -> None:
    torch.manual_seed(0)
    obs, action = draw(), torch.randn(3, 2)
    outputs: list[Tensor]
    if kind in ("dqn", "vac", "pg"):
        model: nn.Module = {"dqn": DQN, "vac": VAC, "pg": PG}[kind](SHAPE, 2, encoder_hidden_size_list=SIZES)
        outputs = [output for name, output in model(obs).items() if isinstance(output, Tensor)]
    else:
        cls = {"qac": QAC, "qvac": QVAC}[kind]
        model = cls(SHAPE, 2, "reparameterization", encoder_hidden_size_list=SIZES)
        inputs = {"obs": obs, "action": action}
        outputs = [model(obs, mode="compute_actor")["logit"]["mu"], model(inputs, mode="compute_critic")["q_value"][0]]
    assert all(len(output) == 3 for output in outputs)
    changed = dict(obs, body={"joints": obs["body"]["joints"] + 1, "goal": obs["body"]["goal"]})
    again = model(changed) if kind in ("dqn", "vac", "pg") else model(changed, mode="compute_actor")
    other = again["logit"] if kind in ("dqn", "vac", "pg") else again["logit"]["mu"]
    assert not torch.equal(outputs[0], other)
