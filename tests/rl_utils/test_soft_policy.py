from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import soft_policy_value


def test_value_and_entropy_by_hand() -> None:
    # pi = 3/4, 1/4: 0.75 * 2 + 0.25 * 6 = 3; H = log 4 - 0.75 log 3
    entropy = math.log(4.0) - 0.75 * math.log(3.0)
    value, got = soft_policy_value(tensor([2.0, 6.0]), tensor([math.log(3.0), 0.0]), 0.5)
    assert got.item() == pytest.approx(entropy)
    assert value.item() == pytest.approx(3.0 + 0.5 * entropy)


def test_it_is_the_papers_sum() -> None:
    torch.manual_seed(0)
    q, logit, alpha = torch.randn(2, 5, 3), torch.randn(2, 5, 3), tensor(0.3)
    value, _ = soft_policy_value(q, logit, alpha)
    for c in range(2):
        for b in range(5):
            pi = [math.exp(x) for x in logit[c, b].tolist()]
            pi = [x / sum(pi) for x in pi]
            expected = sum(p * (x - 0.3 * math.log(p)) for p, x in zip(pi, q[c, b].tolist(), strict=True))
            assert value[c, b].item() == pytest.approx(expected, rel=1e-5)


def test_the_best_policy_is_the_softmax_of_q_over_alpha() -> None:
    # there its value is alpha log sum exp(Q / alpha), and the gradient is zero
    q, alpha = tensor([1.0, 2.0, -1.0]), 0.7
    logit = (q / alpha).requires_grad_()
    value, _ = soft_policy_value(q, logit, alpha)
    assert value.item() == pytest.approx(alpha * torch.logsumexp(q / alpha, 0).item())
    value.backward()
    torch.testing.assert_close(logit.grad, torch.zeros(3), atol=1e-6, rtol=0)


def test_a_forbidden_action_counts_nothing() -> None:
    value, entropy = soft_policy_value(tensor([2.0, 50.0]), tensor([1.0, -torch.inf]), 0.5)
    assert value.item() == pytest.approx(2.0)
    assert entropy.item() == pytest.approx(0.0)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="the same shape"):
        soft_policy_value(torch.zeros(2, 5, 3), torch.zeros(5, 3), 0.5)
