"""Sums of rewards, targets of values, and rescaled values."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import bootstrapped, discounts, nstep_sums, value_inv_transform, value_transform


def test_sums_of_rewards_end_at_the_first_cut() -> None:
    # Gamma 0.5. No cut: 1 + 0.5 * 2 + 0.25 * 4 = 3. Cut after the second: 2. After the first, and again: 1.
    reward_TB = tensor([[1.0], [2.0], [4.0]]).expand(3, 3)
    cut_TB = tensor([[False, False, True], [False, True, False], [True, False, True]])
    total_B, steps_B = nstep_sums(reward_TB, cut_TB, discounts(0.5, 3))
    assert total_B.tolist() == [3.0, 2.0, 1.0]
    assert steps_B.tolist() == [3, 2, 1]


def test_a_target_is_the_reward_and_the_discounted_value_unless_the_episode_ended() -> None:
    # 1 + 0.5 * 10 = 6, and 2 alone, whatever its value; of a second quantile 1 + 0.5 * 20 = 11
    batch = {"reward": tensor([1.0, 2.0]), "value_gamma": tensor([0.5, 0.25]), "done": tensor([False, True])}
    value = tensor([[10.0, torch.inf], [20.0, torch.nan]], requires_grad=True)
    assert bootstrapped(batch, value[0]).tolist() == [6.0, 2.0]
    target = bootstrapped(batch, value)
    assert target.tolist() == [[6.0, 2.0], [11.0, 2.0]]
    (gradient,) = torch.autograd.grad(target.sum(), value)
    assert gradient.tolist() == [[0.5, 0.0], [0.5, 0.0]]


def test_the_transform_by_hand() -> None:
    # sqrt(4) - 1 + 0.01 * 3 = 1.03; sqrt(100) - 1 + 0.99 = 9.99; odd
    torch.testing.assert_close(value_transform(tensor([3.0, -3.0, 99.0, 0.0])), tensor([1.03, -1.03, 9.99, 0.0]))
    assert value_transform(tensor(3.0), 0.5).item() == pytest.approx(2.5)


@pytest.mark.parametrize("eps", [1e-3, 1.0])
def test_the_inverse_undoes_the_transform(eps: float) -> None:
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(value_inv_transform(value_transform(x, eps), eps), x)
    torch.testing.assert_close(value_transform(value_inv_transform(x, eps), eps), x)
