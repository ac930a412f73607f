from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, distributions, tensor

from ding_lite.rl_utils import pg_data, pg_error, pg_error_continuous

# Probabilities 3/4, 1/4 and 1/2, 1/2. The second action of the first, the first of the second.
LOGIT = tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
POLICY = [2.0 * math.log(4.0), -1.0 * math.log(2.0)]  # -R log p
ENTROPY = [math.log(4.0) - 0.75 * math.log(3.0), math.log(2.0)]


def data(**changes: Any) -> pg_data:
    return pg_data(LOGIT, tensor([1, 0]), tensor([2.0, -1.0]))._replace(**changes)


def test_by_hand() -> None:
    policy_loss, entropy_loss = pg_error(data())
    assert policy_loss.item() == pytest.approx(sum(POLICY) / 2)
    assert entropy_loss.item() == pytest.approx(sum(ENTROPY) / 2)


def test_the_mean_gradient_is_that_of_the_expected_return() -> None:
    # all actions of a bandit, weighed with the policy's own probabilities: d/dlogit of sum p R
    logit = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    payoff = tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    weight = 4.0 * logit.detach().softmax(-1)
    loss = pg_error(pg_data(logit.expand(4, 4), torch.arange(4), payoff, weight)).policy_loss
    (estimate,) = torch.autograd.grad(loss, logit)
    (expected,) = torch.autograd.grad(-(logit.softmax(-1) * payoff).sum(), logit)
    torch.testing.assert_close(estimate, expected)


def test_continuous_agrees_with_torch_distributions() -> None:
    generator = torch.Generator().manual_seed(0)
    mu, log_sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    return_, weight = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    sigma = log_sigma.exp().requires_grad_()
    normal = distributions.Independent(distributions.Normal(mu, sigma), 1)
    policy_loss, entropy_loss = pg_error_continuous(pg_data({"mu": mu, "sigma": sigma}, action, return_, weight))
    torch.testing.assert_close(policy_loss, -(weight * return_ * normal.log_prob(action)).mean())
    torch.testing.assert_close(entropy_loss, (weight * normal.entropy()).mean())

    def losses(mu: Tensor, sigma: Tensor) -> tuple[Tensor, ...]:
        return pg_error_continuous(pg_data({"mu": mu, "sigma": sigma}, action, return_, weight))

    assert torch.autograd.gradcheck(losses, (mu.requires_grad_(), sigma.detach().requires_grad_()))
