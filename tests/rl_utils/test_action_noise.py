from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import ornstein_uhlenbeck


def test_ornstein_uhlenbeck_noise_by_hand_and_in_the_long_run() -> None:
    noise = ornstein_uhlenbeck(tensor([[1.0, 0.0]]), tensor([[0.5, -1.0]]), sigma=0.2)
    torch.testing.assert_close(noise, tensor([[0.85 + 0.1, -0.2]]))  # 1 - 0.15, and 0.2 times the new number
    torch.manual_seed(0)
    state, steps = torch.zeros(4000, 1), []
    for _ in range(60):
        state = ornstein_uhlenbeck(state, torch.randn(4000, 1), sigma=0.2)
        steps.append(state)
    # variance v = 0.85^2 v + 0.2^2, and a correlation of 0.85 from one step to the next
    assert steps[-1].std().item() == pytest.approx(0.2 / (1 - 0.85**2) ** 0.5, rel=0.05)
    both = torch.cat(steps[-2:], dim=1).T
    assert torch.corrcoef(both)[0, 1].item() == pytest.approx(0.85, abs=0.02)
