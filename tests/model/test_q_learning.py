from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import DQN, QRDQN, DiscreteHead, DuelingHead, NoisyLinear


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


def test_quantiles_may_come_from_noisy_layers() -> None:
    model = QRDQN(4, 3, [8, 6], num_quantiles=5, noise=True)
    assert all(isinstance(layer, NoisyLinear) for layer in model.head)


def test_images_are_observations_too() -> None:
    model = QRDQN((4, 36, 36), 3, [8, 8, 8, 16], num_quantiles=5).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it
    output = model(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))
    assert (output["logit"].shape, output["q"].shape) == ((2, 3), (2, 3, 5))


def test_tau_is_of_the_models_type() -> None:
    model = QRDQN(4, 3, [8], num_quantiles=5).double()
    assert model(torch.zeros(2, 4, dtype=torch.float64))["tau"].dtype == torch.float64


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("noise", [True, False])
def test_dqn_returns_a_value_for_each_action(dueling: bool, noise: bool) -> None:
    model = DQN(4, 3, [16, 8], dueling=dueling, noise=noise)
    assert model(torch.zeros(5, 4))["logit"].shape == (5, 3)
    assert any(isinstance(module, NoisyLinear) for module in model.modules()) == noise


def test_dueling_head_by_hand() -> None:
    head = DuelingHead(1, 2, layer_num=0)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    head.A[-1].bias.data = torch.tensor([3.0, 1.0])
    head.V[-1].bias.data = torch.tensor([10.0])
    assert head(torch.zeros(1, 1)).tolist() == [[11.0, 9.0]]  # 10 + 3 - 2, 10 + 1 - 2


def test_layer_count_of_the_head() -> None:
    assert sum(isinstance(layer, nn.Linear) for layer in DiscreteHead(4, 2, layer_num=2)) == 3
