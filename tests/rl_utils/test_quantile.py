from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import (
    fqf_calculate_fraction_loss,
)


def test_the_fraction_loss_by_hand_where_quantiles_decrease() -> None:
    # Inner ends 3 and 1, middles 0, 2, 5. tau_1: from 0 it rises to 3, so +(3 - 0); to the next end it falls, so
    # -(3 - 2). tau_2: from the end 3 it falls to 1: -(1 - 2); to the last middle it rises: +(1 - 5).
    ends = tensor([[0.0, 0.25, 0.75, 1.0], [0.0, 0.25, 0.75, 1.0]], requires_grad=True)
    other = torch.full((2, 3), 7.0)
    q_ends = torch.stack([other[:, :2], tensor([[3.0, 1.0]] * 2)], -1)
    q_middles = torch.stack([other, tensor([[0.0, 2.0, 5.0]] * 2)], -1)
    loss = fqf_calculate_fraction_loss(q_ends, q_middles, ends, tensor([1, 1]), tensor([2.0, 0.0]))
    (gradient,) = torch.autograd.grad(loss, ends)
    assert gradient.tolist() == [[0.0, 2.0, -3.0, 0.0], [0.0] * 4]
    assert loss.item() == pytest.approx(2 * 0.25 - 3 * 0.75)
