from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import ACER, DiscreteQAC


@pytest.mark.parametrize("twin", [False, True])
def test_discrete_modes_return_the_documented_shapes(twin: bool) -> None:
    model, obs = DiscreteQAC(4, 3, twin), torch.randn(5, 4)
    assert model(obs, mode="compute_actor")["logit"].shape == (5, 3)
    assert model(obs, mode="compute_critic")["q_value"].shape == (1 + twin, 5, 3)


def test_discrete_networks_are_plain_layers() -> None:
    model = DiscreteQAC(4, 3, twin_critic=True, actor_head_layer_num=0, activation="tanh")
    # 4-64-3 with biases is 320 + 195; 4-64-64-3 twice 320 + 4160 + 195
    assert sum(parameter.numel() for parameter in model.parameters()) == 515 + 2 * 4675
    obs = torch.randn(6, 4)
    first, last = model.actor.head.children()
    torch.testing.assert_close(model(obs, mode="compute_actor")["logit"], nn.Sequential(first, nn.Tanh(), last)(obs))
    q = model(obs, mode="compute_critic")["q_value"]
    for row, head in zip(q, model.critic.heads, strict=True):
        layers: Any = head
        plain = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        torch.testing.assert_close(row, plain(obs))
    assert not torch.allclose(q[0], q[1])


def test_both_modes_are_plain_layers_that_share_nothing() -> None:
    model: Any = ACER(4, 3, [8, 6], actor_head_hidden_size=5, critic_head_layer_num=0)
    obs = torch.randn(7, 4)
    for name, mode, key in (("actor", "compute_actor", "logit"), ("critic", "compute_critic", "q_value")):
        network = getattr(model, name)
        head = network.head if name == "actor" else network.heads[0]
        layers = [*network.encoder, *head]
        sizes = [layer.out_features for layer in layers]
        assert sizes == ([8, 6, 5, 3] if name == "actor" else [8, 6, 3])
        plain = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]
        torch.testing.assert_close(model(obs, mode=mode)[key], plain(obs))
