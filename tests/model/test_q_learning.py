from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ding_lite.model import QRDQN, SQN, DuelingHead


def test_quantiles_equal_plain_layers() -> None:
    model: Any = QRDQN(4, 3, [8, 6], head_layer_num=1, num_quantiles=5)
    obs, (first, second) = torch.randn(7, 4), model.encoder
    hidden, last = model.head
    plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), hidden, nn.ReLU(), last)
    output = model(obs)
    torch.testing.assert_close(output["q"], plain(obs).view(7, 3, 5))
    torch.testing.assert_close(output["logit"], output["q"].mean(-1))
    assert output["tau"].shape == (7, 5, 1)
    torch.testing.assert_close(output["tau"][0, :, 0], torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9]))  # middles of fifths


def test_dueling_head_by_hand() -> None:
    head = DuelingHead(1, 2, layer_num=0)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    head.A[-1].bias.data = torch.tensor([3.0, 1.0])
    head.V[-1].bias.data = torch.tensor([10.0])
    assert head(torch.zeros(1, 1)).tolist() == [[11.0, 9.0]]  # 10 + 3 - 2, 10 + 1 - 2


def test_the_two_networks_are_independent_and_the_first_acts() -> None:
    model, obs = SQN(4, 3, [8], dueling=False), torch.randn(5, 4)
    output = model(obs)
    assert output["q_value"].shape == (2, 5, 3)
    assert torch.equal(output["logit"], output["q_value"][0])
    assert torch.equal(output["q_value"][1], model.q1(obs)["logit"])
    assert not torch.equal(output["q_value"][0], output["q_value"][1])
    output["q_value"][0].sum().backward()
    assert all(parameter.grad is not None for parameter in model.q0.parameters())
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.q1.parameters())
