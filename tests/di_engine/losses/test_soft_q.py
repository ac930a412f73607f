"""Losses of soft Q-learning, by hand and against loops over samples and actions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import (
    m_q_1step_td_data,
    m_q_1step_td_error,
    q_nstep_sql_td_error,
    q_nstep_td_data,
    soft_value,
)

LOG3, LOG4 = math.log(3), math.log(4)
SOFT = tensor([[0.0, LOG3], [0.0, LOG3]])  # with temperature 1 the policy is 1/4, 3/4, and the soft value log 4
Q = tensor([[1.0, 2.0], [3.0, 4.0]])


def munchausen(**changes: Any) -> m_q_1step_td_data:
    base = m_q_1step_td_data(
        q=Q, target_q=SOFT, next_q=SOFT, act=tensor([0, 1]), reward=tensor([0.5, -1.0]), done=tensor([False, True])
    )
    return base._replace(**changes)


def naive_munchausen(data: m_q_1step_td_data, gamma: float, tau: float, alpha: float) -> list[float]:
    """Return the TD errors, as the paper's equation 2 sums them over actions."""
    errors = []
    for q, now, after, act, reward, done, *_ in zip(*(x.tolist() for x in data if x is not None), strict=True):
        policies = []
        for values in (now, after):
            weights = [math.exp(value / tau) for value in values]
            policies.append([weight / sum(weights) for weight in weights])
        bonus = min(max(tau * math.log(policies[0][act]), -1.0), 0.0)
        soft = sum(p * (value - tau * math.log(p)) for p, value in zip(policies[1], after, strict=True))
        errors.append(reward + alpha * bonus + (0.0 if done else gamma * soft) - q[act])
    return errors


def random_munchausen() -> m_q_1step_td_data:
    gen = torch.Generator().manual_seed(0)
    q, target_q, next_q = torch.randn(3, 64, 5, generator=gen, dtype=torch.float64)
    act = torch.randint(5, (64,), generator=gen)
    reward, weight = torch.randn(2, 64, generator=gen, dtype=torch.float64)
    return m_q_1step_td_data(q, target_q, next_q, act, reward, torch.rand(64, generator=gen) < 0.3, weight.abs())


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_munchausen_loss_is_that_of_loops_over_samples_and_actions(tau: float) -> None:
    data = random_munchausen()
    loss, error_B, action_gap, clipped_B = m_q_1step_td_error(data, 0.9, tau, 0.7)
    errors = naive_munchausen(data, 0.9, tau, 0.7)
    torch.testing.assert_close(error_B, tensor(errors, dtype=torch.float64))
    assert data.weight is not None
    weighed = [weight * error**2 for weight, error in zip(data.weight.tolist(), errors, strict=True)]
    assert loss.item() == pytest.approx(sum(weighed) / 64)
    gaps = [sorted(values)[-1] - sorted(values)[-2] for values in data.target_q.tolist()]
    assert action_gap.item() == pytest.approx(sum(gaps) / 64)
    assert 0 < clipped_B.mean() < 1


def soft(**changes: Any) -> q_nstep_td_data:
    base = q_nstep_td_data(Q, SOFT, tensor([0, 1]), tensor([0, 0]), tensor([0.5, -1.0]), tensor([False, True]))
    return base._replace(**changes)


def test_soft_q_loss_by_hand() -> None:
    # Gamma 0.5, alpha 1: 0.5 + 0.5 log 4 - 1, and -1 - 4, which ended.
    loss, error_B, value_B = q_nstep_sql_td_error(soft(), 0.5, 1.0, cum_reward=True)
    errors = [-0.5 + 0.5 * LOG4, -5.0]
    torch.testing.assert_close(error_B, tensor(errors))
    torch.testing.assert_close(value_B, tensor([LOG4, LOG4]))
    assert loss.item() == pytest.approx((errors[0] ** 2 + 25) / 2)


def test_small_temperatures_and_large_values_stay_finite() -> None:
    assert soft_value(tensor([[1e4, -1e4]]), 0.01).item() == pytest.approx(1e4)
    data = munchausen(target_q=SOFT * 1e4, next_q=SOFT * 1e4)
    assert all(torch.isfinite(part).all() for part in m_q_1step_td_error(data, 0.5, 0.03, 0.9))
