from __future__ import annotations

import math

import pytest
import torch
from torch import distributions, tensor

from ding_lite.rl_utils import (
    advantage_weight,
    conservative_gap,
    expectile_error,
    squashed_sample,
    sum_of_means,
    td3_bc_actor_error,
    temperature_error,
)


def test_values_that_would_broadcast_are_refused() -> None:
    column = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="the same shape"):
        td3_bc_actor_error(torch.zeros(2), column, torch.zeros(2), tensor(1.0), 1.0)
    with pytest.raises(ValueError, match="the same shape"):
        conservative_gap(torch.zeros(2, 3, 4), torch.zeros(3, 1), torch.zeros(2, 4))


def test_the_actor_weighs_q_against_imitation() -> None:
    q, action = tensor([1.0, 3.0], requires_grad=True), tensor([[0.5], [-0.5]], requires_grad=True)
    scale = tensor(4.0, requires_grad=True)
    loss, bc_loss = td3_bc_actor_error(q, action, tensor([[0.0], [0.5]]), scale, alpha=2.0)
    # lambda = 2 / 4; imitation (0.25 + 1) / 2; Q's mean is 2
    assert bc_loss.item() == 0.625
    assert loss.item() == 0.625 - 0.5 * 2.0
    loss.backward()
    assert q.grad is not None
    assert action.grad is not None
    assert q.grad.tolist() == [-0.25, -0.25]
    assert action.grad.tolist() == [[0.5], [-1.0]]
    assert scale.grad is None


def test_the_expectile_weighs_errors_by_their_sign() -> None:
    assert expectile_error(tensor([2.0, -1.0]), 0.9).item() == pytest.approx((0.9 * 4 + 0.1 * 1) / 2)
    # of 0 and 1, v is the 0.9-expectile where 0.9 (1 - v) = 0.1 v
    value = tensor(0.9, requires_grad=True)
    expectile_error(tensor([0.0, 1.0]) - value, 0.9).backward()
    assert value.grad is not None
    assert value.grad.item() == pytest.approx(0.0, abs=1e-7)


def test_advantages_weigh_exponentially_and_at_most_a_hundred() -> None:
    adv = tensor([0.0, 0.5 * math.log(3.0), -0.5 * math.log(2.0), 10.0], requires_grad=True)
    weight = advantage_weight(adv, beta=2.0)
    assert weight.tolist() == pytest.approx([1.0, 3.0, 0.5, 100.0])
    assert not weight.requires_grad


def test_the_conservative_gap_by_hand() -> None:
    q = tensor([[[0.0], [math.log(3.0)]], [[0.0], [0.0]]], requires_grad=True)  # two critics, two actions, one state
    log_density = torch.full((2, 1), math.log(0.5), requires_grad=True)
    gap = conservative_gap(q, log_density, tensor([[math.log(2.0)], [1.0]]))
    # log(2 * 1 + 2 * 3) - log 2, and log(2 + 2) - 1
    assert gap.tolist() == pytest.approx([math.log(4.0), math.log(4.0) - 1.0])
    gap.sum().backward()
    assert q.grad is not None
    assert q.grad.flatten().tolist() == pytest.approx([0.25, 0.75, 0.5, 0.5])
    assert log_density.grad is None


@pytest.mark.parametrize("kind", ["uniform", "policy", "both"])
def test_actions_of_any_density_estimate_the_same_integral(kind: str) -> None:
    torch.manual_seed(0)
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


def test_the_temperature_falls_while_the_entropy_is_above_its_target() -> None:
    log_alpha, logp = tensor(0.5, requires_grad=True), tensor([-3.0, 1.0], requires_grad=True)
    loss = temperature_error(log_alpha, logp, target_entropy=-1.5)  # the entropy is 1
    assert loss.item() == pytest.approx(0.5 * 2.5)
    loss.backward()
    assert log_alpha.grad is not None
    assert log_alpha.grad.item() == pytest.approx(2.5)
    assert logp.grad is None


def test_losses_of_several_critics_are_summed_over_critics_and_averaged_over_samples() -> None:
    square_CB = torch.tensor([[4.0, 0.0], [0.0, 4.0]])
    assert sum_of_means(square_CB).item() == pytest.approx((4 + 0) / 2 + (0 + 4) / 2)
    weight_B = torch.tensor([0.5, 2.0])
    assert sum_of_means(square_CB, weight_B).item() == pytest.approx((0.5 * 4 + 0) / 2 + (0 + 2 * 4) / 2)


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
