"""The loss of rescaled values: numbers by hand, a naive loop, checks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import q_nstep_td_data, q_nstep_td_error_with_rescale
from tests.rl_utils.test_td import data


def test_the_target_of_rescaled_values_by_hand() -> None:
    # With h(x) = 2 x and its inverse: y = 2 (0.5 + 0.9 * 20 / 2) = 19, and the terminal y = 2 * -1 = -2; Q is 1 and 4.
    functions: dict[str, Any] = dict(trans_fn=lambda x: 2 * x, inv_trans_fn=lambda x: x / 2)
    some = data(done=tensor([False, True]), weight=tensor([0.5, 1.0]))
    loss, error = q_nstep_td_error_with_rescale(some, 0.9, cum_reward=True, **functions)
    torch.testing.assert_close(error, tensor([18.0, -6.0]))
    assert loss.item() == pytest.approx((0.5 * 18**2 + 6**2) / 2)


def test_rescaled_targets_agree_with_a_naive_loop() -> None:
    gen = torch.Generator().manual_seed(0)
    q, next_q = torch.randn(2, 6, 3, dtype=torch.float64, generator=gen) * 5
    reward = torch.randn(2, 6, dtype=torch.float64, generator=gen) * 20
    action, next_action = torch.randint(3, (2, 6), generator=gen)
    done, value_gamma = torch.rand(6, generator=gen) < 0.4, torch.rand(6, dtype=torch.float64, generator=gen)
    some = q_nstep_td_data(q, next_q, action, next_action, reward, done)
    loss, error = q_nstep_td_error_with_rescale(some, 0.7, 2, value_gamma)

    def h(x: float) -> float:
        return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 0.01 * x

    def inverse(y: float) -> float:  # by bisection
        low, high = -1e6, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if h(middle) < y else (low, middle)
        return low

    for b in range(6):
        total = float(reward[0, b] + 0.7 * reward[1, b])
        total += 0.0 if done[b] else float(value_gamma[b]) * inverse(float(next_q[b, next_action[b]]))
        assert error[b].item() == pytest.approx(h(total) - float(q[b, action[b]]), abs=1e-8)
    assert loss.item() == pytest.approx(float(error.square().mean()))
