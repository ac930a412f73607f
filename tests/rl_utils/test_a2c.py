"""The losses of REINFORCE and of the advantage actor-critic, by hand and against torch's distributions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import distributions, tensor

from ding_lite.rl_utils import a2c_data, a2c_error, a2c_error_continuous, pg_data, pg_error, pg_error_continuous


def test_by_hand() -> None:
    # Probabilities 3/4, 1/4 and 1/2, 1/2. The second action of the first, the first of the second.
    logit, action, adv = tensor([[math.log(3.0), 0.0], [0.0, 0.0]]), tensor([1, 0]), tensor([2.0, -1.0])
    policy = (2.0 * math.log(4.0) - 1.0 * math.log(2.0)) / 2  # -A log p
    value = (2.25 + 1.0) / 2  # (3 - 1.5)^2, (0 - 1)^2
    entropy = (math.log(4.0) - 0.75 * math.log(3.0) + math.log(2.0)) / 2
    loss = a2c_error(a2c_data(logit, action, tensor([1.5, 1.0]), adv, tensor([3.0, 0.0])))
    assert [term.item() for term in loss] == pytest.approx([policy, value, entropy])
    assert [term.item() for term in pg_error(pg_data(logit, action, adv))] == pytest.approx([policy, entropy])


def test_the_mean_gradient_is_that_of_the_expected_return() -> None:
    # all actions of a bandit, weighed with the policy's own probabilities: d/dlogit of sum p R
    logit = torch.randn(4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    payoff = tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    weight = 4.0 * logit.detach().softmax(-1)
    loss = pg_error(pg_data(logit.expand(4, 4), torch.arange(4), payoff, weight)).policy_loss
    (estimate,) = torch.autograd.grad(loss, logit)
    (expected,) = torch.autograd.grad(-(logit.softmax(-1) * payoff).sum(), logit)
    torch.testing.assert_close(estimate, expected)


def continuous_data() -> a2c_data:
    generator = torch.Generator().manual_seed(0)
    mu, sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    value, adv, return_, weight = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    return a2c_data({"mu": mu, "sigma": sigma.exp()}, action, value, adv, return_, weight)


def test_continuous_agrees_with_torch_distributions() -> None:
    sample: Any = continuous_data()
    normal = distributions.Independent(distributions.Normal(sample.logit["mu"], sample.logit["sigma"]), 1)
    policy_loss, value_loss, entropy_loss = a2c_error_continuous(sample)
    torch.testing.assert_close(policy_loss, -(sample.weight * sample.adv * normal.log_prob(sample.action)).mean())
    torch.testing.assert_close(value_loss, (sample.weight * (sample.return_ - sample.value) ** 2).mean())
    torch.testing.assert_close(entropy_loss, (sample.weight * normal.entropy()).mean())
    of_pg = pg_error_continuous(pg_data(sample.logit, sample.action, sample.adv, sample.weight))
    torch.testing.assert_close(tuple(of_pg), (policy_loss, entropy_loss))
