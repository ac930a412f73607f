from __future__ import annotations

import math

import pytest
import torch
from torch import distributions, tensor

from ding_lite.rl_utils import (
    advantage_weight,
    conservative_gap,
    squashed_sample,
    td3_bc_actor_error,
    temperature_error,
)


def test_values_that_would_broadcast_are_refused() -> None:
    column = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="the same shape"):
        td3_bc_actor_error(torch.zeros(2), column, torch.zeros(2), tensor(1.0), 1.0)
    with pytest.raises(ValueError, match="the same shape"):
        conservative_gap(torch.zeros(2, 3, 4), torch.zeros(3, 1), torch.zeros(2, 4))


@pytest.mark.parametrize("kind", ["uniform", "policy", "both"])
def test_actions_of_any_density_estimate_the_same_integral(kind: str) -> None:
    count = 50_000
    uniform = torch.rand(count, 1, 1).double() * 2 - 1
    logit = {"mu": tensor([[0.3]]).double(), "sigma": tensor([[1.2]]).double()}
    drawn, logp = squashed_sample(logit, torch.randn(count, 1, 1).double())
    parts = {"uniform": [(uniform, torch.full((count, 1), math.log(0.5)).double())], "policy": [(drawn, logp)]}
    parts["both"] = parts["uniform"] + parts["policy"]
    action, log_density = (torch.cat(part) for part in zip(*parts[kind], strict=True))
    gap = conservative_gap(action[None, ..., 0], log_density, torch.zeros(1, 1).double())
    # Q(a) = a: the integral of exp(a) over -1..1 is e - 1/e
    expected = math.log(math.e - 1 / math.e) + math.log(len(action))
    assert gap.item() == pytest.approx(expected, abs=0.02)


def test_it_is_the_normal_of_torch_transformed_by_tanh_for_several_draws_of_a_state() -> None:
    mu, sigma, noise = torch.randn(5, 2).double(), torch.rand(5, 2).double() + 0.2, torch.randn(3, 5, 2).double()
    logit = {"mu": mu.requires_grad_(), "sigma": sigma.requires_grad_()}
    action, logp = squashed_sample(logit, noise)
    normal = distributions.Independent(distributions.Normal(mu, sigma), 1)
    squashed = distributions.TransformedDistribution(normal, [distributions.TanhTransform(cache_size=1)])
    expected = (mu + sigma * noise).tanh()
    torch.testing.assert_close(action, expected)
    torch.testing.assert_close(logp, squashed.log_prob(expected))
    ours, theirs = (torch.autograd.grad(one.sum(), [mu, sigma]) for one in (logp, squashed.log_prob(expected)))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_density_is_exact_where_tanh_rounds_to_one(sign: float) -> None:
    mu = tensor([[20.0 * sign]], requires_grad=True)
    action, logp = squashed_sample({"mu": mu, "sigma": torch.ones(1, 1)}, torch.zeros(1, 1))
    assert action.item() == sign
    # 1 - tanh(u)^2 = 4 exp(-2 |u|) up to a factor of 1 + exp(-40)
    assert logp.item() == pytest.approx(-0.5 * math.log(2 * math.pi) - math.log(4.0) + 40.0, rel=1e-6)
    logp.sum().backward()
    assert mu.grad is not None
    assert mu.grad.item() == pytest.approx(2.0 * sign)


def test_weights_and_temperatures_have_no_gradient_for_values_and_log_probabilities() -> None:
    adv, logp, log_alpha = (torch.ones(2, requires_grad=True) for _ in range(3))
    assert not advantage_weight(adv, beta=2.0).requires_grad
    temperature_error(log_alpha, logp, target_entropy=-1.5).backward()
    assert log_alpha.grad is not None
    assert logp.grad is None
