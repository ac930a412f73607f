"""Heads of action values."""

from __future__ import annotations

import torch
from torch import nn

from ding_lite.model import DiscreteHead, DuelingHead


def test_dueling_head_by_hand() -> None:
    head = DuelingHead(1, 2, layer_num=0)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    head.A[-1].bias.data = torch.tensor([3.0, 1.0])
    head.V[-1].bias.data = torch.tensor([10.0])
    assert head(torch.zeros(1, 1)).tolist() == [[11.0, 9.0]]  # 10 + 3 - 2, 10 + 1 - 2


def test_layer_count_of_the_head() -> None:
    assert sum(isinstance(layer, nn.Linear) for layer in DiscreteHead(4, 2, layer_num=2)) == 3
