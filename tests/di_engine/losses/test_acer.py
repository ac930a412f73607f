from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import acer_policy_error, acer_trust_region_update, acer_value_error

LOGP = tensor([[[0.75, 0.25]]]).log()
Q, QRET, V, ACTION = tensor([[[1.0, 5.0]]]), tensor([[[4.0]]]), tensor([[[2.0]]]), tensor([[1]])
RATIO = tensor([[[4.0, 8.0]]])


def errors(c: float, **changes: Any) -> list[float]:
    arguments: dict[str, Any] = dict(
        q_values=Q, q_retraces=QRET, v_pred=V, target_logit=LOGP, actions=ACTION, ratio=RATIO
    )
    return [term.item() for term in acer_policy_error(**(arguments | changes), c_clip_ratio=c)]


def test_a_ratio_of_zero_or_infinity_stays_finite() -> None:
    first, last = errors(2.0, ratio=tensor([[[0.0, torch.inf]]]))
    assert first == pytest.approx(2 * 2 * math.log(0.25))
    assert last == pytest.approx(0.25 * 3 * math.log(0.25))  # 1 - 2 / inf


def test_the_gradient_flows_through_log_pi_alone_and_estimates_the_policy_gradient() -> None:
    # the expectation over mu of both terms' gradients is sum_a pi(a) A(a) d log pi(a), whatever c, if Qret is Q
    gen = torch.Generator().manual_seed(0)
    logit, q = (torch.randn(3, generator=gen, dtype=torch.float64) for _ in range(2))
    mu = torch.randn(3, generator=gen, dtype=torch.float64).softmax(-1)
    pi = logit.softmax(-1)
    v = (pi * q).sum()
    for c in (0.5, 1.0, 10.0):
        total = torch.zeros(3, dtype=torch.float64)
        for action in range(3):
            leaf, values = logit.clone().requires_grad_(), q.clone().requires_grad_()
            logp = leaf.log_softmax(-1).view(1, 1, 3)
            ratio = (pi / mu).view(1, 1, 3)
            first, last = acer_policy_error(
                values.view(1, 1, 3), values[action].view(1, 1, 1), v.view(1, 1, 1), logp, tensor([[action]]), ratio, c
            )
            (first + last).sum().backward()
            assert values.grad is None
            assert leaf.grad is not None
            total += mu[action] * leaf.grad
        torch.testing.assert_close(total, pi * (q - v))


def test_shapes_are_checked() -> None:
    gradient = tensor([[[5.0, 10.0]]])
    for call in (
        lambda: acer_policy_error(Q, QRET[0], V, LOGP, ACTION, RATIO),
        lambda: acer_value_error(Q, QRET[0], ACTION),
        lambda: acer_trust_region_update([gradient[0]], LOGP, LOGP, 0.1),
    ):
        with pytest.raises(ValueError, match="the same shape"):
            call()


def test_the_critics_error_by_hand() -> None:
    q, target = Q.clone().requires_grad_(), QRET.clone().requires_grad_()
    error = acer_value_error(q, target, ACTION)
    assert error.tolist() == [[[0.5]]]  # (4 - 5)^2 / 2
    error.sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[[0.0, 1.0]]]
    assert target.grad is None
