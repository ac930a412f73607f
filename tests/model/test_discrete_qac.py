from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import DiscreteQAC
from ding_lite.utils import MODEL_REGISTRY, ConfigError


def test_it_has_the_registered_name_of_di_engine() -> None:
    assert MODEL_REGISTRY.find("discrete_qac") is DiscreteQAC


@pytest.mark.parametrize("twin", [False, True])
def test_every_mode_returns_the_documented_shapes(twin: bool) -> None:
    model, obs = DiscreteQAC(4, 3, twin), torch.randn(5, 4)
    assert model(obs, mode="compute_actor")["logit"].shape == (5, 3)
    assert model(obs, mode="compute_critic")["q_value"].shape == (1 + twin, 5, 3)
    with pytest.raises(ValueError, match="compute_actor, compute_critic, got 'compute_value'"):
        model(obs, mode="compute_value")


def test_networks_are_plain_layers_and_share_nothing() -> None:
    model = DiscreteQAC(4, 3, twin_critic=True, actor_head_layer_num=0, activation="tanh")
    # 4-64-3 with biases is 320 + 195; 4-64-64-3 twice 320 + 4160 + 195
    assert sum(parameter.numel() for parameter in model.parameters()) == 515 + 2 * 4675
    names = {id(parameter) for parameter in model.actor.parameters()}
    assert not names & {id(parameter) for parameter in model.critic.parameters()}
    obs = torch.randn(6, 4)
    first, last = model.actor.head.children()
    torch.testing.assert_close(model(obs, mode="compute_actor")["logit"], nn.Sequential(first, nn.Tanh(), last)(obs))
    q = model(obs, mode="compute_critic")["q_value"]
    for row, head in zip(q, model.critic.heads, strict=True):
        layers: Any = head
        plain = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        torch.testing.assert_close(row, plain(obs))
    assert not torch.allclose(q[0], q[1])


def test_images_have_an_encoder_for_each_network() -> None:
    model = DiscreteQAC((4, 36, 36), 3, twin_critic=True, encoder_hidden_size_list=[8, 8, 8, 16])
    image = torch.randint(256, (5, 4, 36, 36), dtype=torch.uint8)
    assert model(image, mode="compute_critic")["q_value"].shape == (2, 5, 3)
    assert model(image, mode="compute_actor")["logit"].shape == (5, 3)
    assert model.actor.encoder is not model.critic.encoder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(obs_shape=(4, 36, 36)), "encoder_hidden_size_list for images"),
        (dict(action_shape=[2, 2]), "action_shape must be a whole number"),
        (dict(activation="rellu"), "activation must be one of"),
    ],
)
def test_what_makes_no_network_is_an_error_of_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DiscreteQAC(**(dict(obs_shape=3, action_shape=2) | change))
