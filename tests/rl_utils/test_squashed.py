from __future__ import annotations

import math

import pytest
import torch
from torch import distributions, tensor

from ding_lite.rl_utils import squashed_sample


def test_zero_noise_gives_the_tanh_of_mu_and_its_density_by_hand() -> None:
    action, logp = squashed_sample({"mu": tensor([[0.0, 1.0]]), "sigma": tensor([[1.0, 2.0]])}, torch.zeros(1, 2))
    assert action.tolist() == [[0.0, pytest.approx(math.tanh(1.0))]]
    # N(0; 0, 1) with slope 1, and N(1; 1, 2) with slope 1 - tanh(1)^2
    expected = -math.log(2 * math.pi) - math.log(2.0) - math.log(1 - math.tanh(1.0) ** 2)
    assert logp.item() == pytest.approx(expected, abs=1e-6)


def test_it_is_the_normal_of_torch_transformed_by_tanh_for_several_draws_of_a_state() -> None:
    torch.manual_seed(0)
    mu, sigma, noise = torch.randn(5, 2).double(), torch.rand(5, 2).double() + 0.2, torch.randn(3, 5, 2).double()
    action, logp = squashed_sample({"mu": mu, "sigma": sigma}, noise)
    normal = distributions.Independent(distributions.Normal(mu, sigma), 1)
    squashed = distributions.TransformedDistribution(normal, [distributions.TanhTransform()])
    assert action.shape == (3, 5, 2)
    torch.testing.assert_close(logp, squashed.log_prob(action))


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


def test_gradients_reach_mu_and_sigma_and_nothing_is_written_to() -> None:
    logit = {"mu": tensor([[0.3]], requires_grad=True), "sigma": tensor([[0.5]], requires_grad=True)}
    noise = tensor([[1.0]])
    action, logp = squashed_sample(logit, noise)
    grad_mu, grad_sigma = torch.autograd.grad(action.sum(), list(logit.values()), retain_graph=True)
    slope = 1 - math.tanh(0.8) ** 2
    assert [grad_mu.item(), grad_sigma.item()] == pytest.approx([slope, slope])
    grad_mu, grad_sigma = torch.autograd.grad(logp.sum(), list(logit.values()))
    # d(-log slope)/du = 2 tanh(u), and -log sigma
    assert grad_mu.item() == pytest.approx(2 * math.tanh(0.8), rel=1e-5)
    assert grad_sigma.item() == pytest.approx(2 * math.tanh(0.8) - 2.0, rel=1e-5)
    assert noise.tolist() == [[1.0]]
