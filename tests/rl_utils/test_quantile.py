from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    fqf_calculate_fraction_loss,
    fqf_nstep_td_data,
    fqf_nstep_td_error,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
)

# -- quantile regression ----------------------------------------------------------------------------------------------

# Two quantiles of two actions. Sample 0 took action 0: 0 and 1; next is action 1: 2 and 4, so that with a reward of 1
# and gamma 1/2 the targets are 2 and 3. Sample 1 took action 1: 2 and 2; it ends with a reward of 1.
QUANTILES = tensor([[[0.0, 1.0], [9.0, 9.0]], [[9.0, 9.0], [2.0, 2.0]]])
NEXT_QUANTILES = tensor([[[9.0, 9.0], [2.0, 4.0]], [[9.0, 9.0], [9.0, 9.0]]])
TAU = tensor([0.25, 0.75])[:, None].expand(2, -1, -1)


def quantiles(**changes: Any) -> qrdqn_nstep_td_data:
    base = qrdqn_nstep_td_data(
        q=QUANTILES, next_n_q=NEXT_QUANTILES, action=tensor([0, 1]), next_n_action=tensor([1, 0]),
        reward=tensor([1.0, 1.0]), done=tensor([False, True]), tau=TAU,
    )  # fmt: skip
    return base._replace(**changes)


# u = target - theta. Sample 0: 2 and 3 for tau 1/4, 1 and 2 for tau 3/4, all positive and weighed by tau.
#   kappa 1: L = |u| - 1/2 from |u| = 1 on: 1/4 (1.5 + 2.5) / 2 + 3/4 (0.5 + 1.5) / 2 = 0.5 + 0.75
#   kappa 2: L = u^2 / 2 up to 2, then 2 (|u| - 1): 1/4 (2 + 4) / 2 + 3/4 (0.5 + 2) / 2 = 0.75 + 0.9375
#   kappa 0: L = |u|: 1/4 (2 + 3) / 2 + 3/4 (1 + 2) / 2 = 0.625 + 1.125
# Sample 1: the target is 1, u = -1 four times, weighed by 1 - tau, 3/4 and 1/4, which is 1 together: L(1).
LOSSES = {1.0: (1.25, 0.5), 2.0: (1.6875, 0.5), 0.0: (1.75, 1.0)}


@pytest.mark.parametrize("kappa", LOSSES)
def test_quantile_loss_by_hand(kappa: Any) -> None:
    loss, losses = qrdqn_nstep_td_error(quantiles(), 0.5, cum_reward=True, kappa=kappa)
    torch.testing.assert_close(losses, tensor(LOSSES[kappa]))
    assert loss.item() == pytest.approx(sum(LOSSES[kappa]) / 2)
    data = quantiles(weight=tensor([2.0, 0.5]))
    weighed, losses = qrdqn_nstep_td_error(data, 0.5, cum_reward=True, kappa=kappa)
    torch.testing.assert_close(losses, tensor(LOSSES[kappa]))  # of each sample as it is
    assert weighed.item() == pytest.approx((2 * LOSSES[kappa][0] + 0.5 * LOSSES[kappa][1]) / 2)


def test_quantile_loss_gradient_by_hand() -> None:
    q, next_q = QUANTILES.clone().requires_grad_(), NEXT_QUANTILES.clone().requires_grad_()
    loss, losses = qrdqn_nstep_td_error(quantiles(q=q, next_n_q=next_q), 0.5, cum_reward=True)
    loss.backward()
    # For two samples, half of: sample 0: -tau (L' = 1 for both targets); sample 1: +(1 - tau)
    expected = tensor([[[-0.125, -0.375], [0, 0]], [[0, 0], [0.375, 0.125]]])
    torch.testing.assert_close(q.grad, expected)
    assert next_q.grad is None
    assert not losses.requires_grad


def test_quantile_targets_sum_rewards_and_discount_what_follows() -> None:
    # gamma 1/2, 2 steps: 1 + 1/2 * 2 = 2 and 1/4 of 2 and 4: targets 2.5 and 3; sample 1: 0 + 1/2 * 2 = 1 as before
    reward = tensor([[1.0, 0.0], [2.0, 2.0]])
    _, two_steps = qrdqn_nstep_td_error(quantiles(reward=reward), 0.5, nstep=2, kappa=0.0)
    torch.testing.assert_close(two_steps, tensor([0.25 * 2.75 + 0.75 * 1.75, 1.0]))
    # value_gamma 1/4 for 1/2: targets 1.5 and 2
    _, cut = qrdqn_nstep_td_error(quantiles(), 0.5, 3, tensor([0.25, 0.5]), cum_reward=True, kappa=0.0)
    torch.testing.assert_close(cut, tensor([0.25 * 1.75 + 0.75 * 0.75, 1.0]))


def test_a_quantile_that_is_not_finite_does_not_leak_through_done() -> None:
    next_q = NEXT_QUANTILES.clone()
    next_q[1] = float("inf")
    _, losses = qrdqn_nstep_td_error(quantiles(next_n_q=next_q), 0.5, cum_reward=True)
    torch.testing.assert_close(losses, tensor(LOSSES[1.0]))


@pytest.mark.parametrize("side", [1, -1])
def test_the_loss_is_least_at_the_quantiles_of_the_return(side: int) -> None:
    # Returns 1, 2, 3, 4 are alike often, so that they are the quantiles 1/8, 3/8, 5/8, 7/8. The derivative by quantile
    # i is P(return < theta_i) - tau_i: a little above it is i/4 - (i - 1/2)/4 = 1/8, a little below -1/8.
    theta = (tensor([1.0, 2, 3, 4]) + 0.1 * side)[None, None].requires_grad_()
    tau = ((torch.arange(4) + 0.5) / 4)[:, None].expand(4, -1, -1)
    q, zero = theta.expand(4, -1, -1), torch.zeros(4, dtype=torch.int64)
    data = qrdqn_nstep_td_data(q, q.detach(), zero, zero, tensor([1.0, 2, 3, 4]), torch.ones(4), tau)
    loss, _ = qrdqn_nstep_td_error(data, 0.9, cum_reward=True, kappa=0.0)
    (gradient,) = torch.autograd.grad(loss, theta)
    torch.testing.assert_close(gradient.flatten(), torch.full((4,), side / 8))


def test_quantile_arguments_are_checked_and_not_written_into() -> None:
    before: Any = quantiles(weight=tensor([1.0, 2.0]), tau=TAU.clone())
    copies = [value.clone() for value in before]
    qrdqn_nstep_td_error(before, 0.9, cum_reward=True)
    for value, copy in zip(before, copies, strict=True):
        torch.testing.assert_close(value, copy)
    with pytest.raises(ValueError, match=r"\[B, A, K\]"):
        qrdqn_nstep_td_error(quantiles(next_n_q=NEXT_QUANTILES[..., :1]), 0.9, cum_reward=True)
    with pytest.raises(ValueError, match=r"\[T, B\]"):
        qrdqn_nstep_td_error(quantiles(), 0.9)


# -- IQN and FQF ------------------------------------------------------------------------------------------------------


def naive(q: Tensor, next_q: Tensor, tau: Tensor, data: Any, gamma: float, kappa: float) -> list[float]:
    """Return the loss of each sample, one pair of quantiles after the other, for q `[B, K, A]` and tau `[B, K]`."""
    losses = []
    for b in range(len(q)):
        total = sum(gamma**k * data.reward[k, b].item() for k in range(len(data.reward)))
        keep = 0.0 if data.done[b] else gamma ** len(data.reward)
        loss = 0.0
        for theta, probability in zip(q[b, :, data.action[b]].tolist(), tau[b].tolist(), strict=True):
            for next_theta in next_q[b, :, data.next_n_action[b]].tolist():
                u = total + keep * next_theta - theta
                huber = u * u / 2 if abs(u) <= kappa else kappa * (abs(u) - kappa / 2)
                loss += abs(probability - (u < 0)) * huber / kappa / next_q.shape[1]
        losses.append(loss)
    return losses


def random_step(
    batch: int = 20, quantiles: int = 5, targets: int = 7
) -> tuple[Tensor, Tensor, Tensor, iqn_nstep_td_data]:
    """Return q `[B, K, A]`, next_q `[B, J, A]`, tau `[B, K]`, and the same as IQN's data."""
    torch.manual_seed(0)
    q, next_q = (torch.randn(batch, n, 3, dtype=torch.float64) * 2 for n in (quantiles, targets))
    tau, reward = torch.rand(batch, quantiles, dtype=torch.float64), torch.randn(3, batch, dtype=torch.float64)
    step = (torch.randint(3, (batch,)), torch.randint(3, (batch,)), reward, torch.rand(batch) < 0.3)
    weight = torch.rand(batch, dtype=torch.float64)
    data = iqn_nstep_td_data(q.transpose(0, 1), next_q.transpose(0, 1), *step, tau.t()[..., None], weight)
    return q, next_q, tau, data


@pytest.mark.parametrize("kappa", [1.0, 0.3])
def test_iqn_and_fqf_losses_equal_a_naive_one(kappa: float) -> None:
    q, next_q, tau, data = random_step()
    expected = tensor(naive(q, next_q, tau, data, 0.9, kappa), dtype=torch.float64)
    of_fqf = fqf_nstep_td_data(q, next_q, *data[2:6], tau, data.weight)
    flat = data._replace(replay_quantiles=data.replay_quantiles.reshape(-1, 1))  # as in DI-engine
    for loss, losses in (
        iqn_nstep_td_error(data, 0.9, 3, kappa),
        iqn_nstep_td_error(flat, 0.9, 3, kappa),
        fqf_nstep_td_error(of_fqf, 0.9, 3, kappa),
    ):
        torch.testing.assert_close(losses, expected)
        assert data.weight is not None
        torch.testing.assert_close(loss, (expected * data.weight).mean())
        assert not losses.requires_grad


@pytest.mark.parametrize("kappa", LOSSES)
def test_iqn_and_fqf_losses_by_hand_are_those_of_qrdqn_over_kappa(kappa: Any) -> None:
    data = quantiles(weight=tensor([2.0, 0.5]))
    expected = tensor(LOSSES[kappa]) / (kappa or 1)
    by_place = (data.q.permute(2, 0, 1), data.next_n_q.permute(2, 0, 1))
    of_iqn = iqn_nstep_td_data(*by_place, *data[2:6], data.tau.transpose(0, 1), data.weight)
    by_sample = (data.q.transpose(1, 2), data.next_n_q.transpose(1, 2))
    of_fqf = fqf_nstep_td_data(*by_sample, *data[2:6], data.tau[..., 0], data.weight)
    for loss, losses in (
        iqn_nstep_td_error(of_iqn, 0.5, kappa=kappa, cum_reward=True),
        fqf_nstep_td_error(of_fqf, 0.5, kappa=kappa, cum_reward=True),
    ):
        torch.testing.assert_close(losses, expected)
        assert loss.item() == pytest.approx((2 * expected[0].item() + 0.5 * expected[1].item()) / 2)


def test_the_gradients_of_iqn_and_fqf_flow_to_the_predicted_quantiles_alone() -> None:
    q, next_q, tau, data = random_step()
    for leaf in (q, next_q, tau):
        leaf.requires_grad_()
    fqf_nstep_td_error(fqf_nstep_td_data(q, next_q, *data[2:6], tau), 0.9, 3)[0].backward()
    assert q.grad is not None
    assert next_q.grad is None
    assert tau.grad is None


def test_iqn_and_fqf_shapes_are_checked() -> None:
    q, next_q, tau, data = random_step()
    with pytest.raises(ValueError, match=r"\[K, B, A\] and \[J, B, A\]"):
        iqn_nstep_td_error(data._replace(next_n_q=next_q), 0.9, 3)
    with pytest.raises(ValueError, match=r"\[B, K, A\] and \[B, J, A\]"):
        fqf_nstep_td_error(fqf_nstep_td_data(q, next_q[..., :2], *data[2:6], tau), 0.9, 3)
    with pytest.raises(ValueError, match=r"\[B, K-1, A\], \[B, K, A\] and \[B, K\+1\]"):
        fqf_calculate_fraction_loss(q, q, tau, data.action)


def distance(quantile: Any, tau: list[float]) -> float:
    """Return the 1-Wasserstein distance of a quantile function to its steps, by many small parts of [0, 1]."""
    parts, total = 4000, 0.0
    for low, high in itertools.pairwise(tau):
        step = quantile((low + high) / 2)
        omegas = [low + (high - low) * (k + 0.5) / parts for k in range(parts)]
        total += sum(abs(quantile(omega) - step) for omega in omegas) * (high - low) / parts
    return total


def test_the_fraction_losss_gradient_is_that_of_the_wasserstein_distance() -> None:
    # Z(tau) = tau^2, which rises: tested by differences of the distance itself
    tau = [0.0, 0.3, 0.5, 1.0]
    ends = tensor([tau], dtype=torch.float64, requires_grad=True)
    middles = (ends[:, 1:] + ends[:, :-1]).detach() / 2
    column = (ends[:, 1:-1].detach() ** 2)[..., None], (middles**2)[..., None]
    loss = fqf_calculate_fraction_loss(*column, ends, torch.zeros(1, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(loss, ends)
    assert gradient[0, [0, 3]].tolist() == [0.0, 0.0]
    for place in (1, 2):
        sides = []
        for shift in (1e-3, -1e-3):
            moved = [value + shift * (place == number) for number, value in enumerate(tau)]
            sides.append(distance(lambda omega: omega * omega, moved))
        assert gradient[0, place].item() == pytest.approx((sides[0] - sides[1]) / 2e-3, rel=1e-3)


def test_the_fraction_loss_by_hand_where_quantiles_decrease() -> None:
    # Inner ends 3 and 1, middles 0, 2, 5. tau_1: from 0 it rises to 3, so +(3 - 0); to the next end it falls, so
    # -(3 - 2). tau_2: from the end 3 it falls to 1: -(1 - 2); to the last middle it rises: +(1 - 5).
    ends = tensor([[0.0, 0.25, 0.75, 1.0], [0.0, 0.25, 0.75, 1.0]], requires_grad=True)
    other = torch.full((2, 3), 7.0)
    q_ends = torch.stack([other[:, :2], tensor([[3.0, 1.0]] * 2)], -1)
    q_middles = torch.stack([other, tensor([[0.0, 2.0, 5.0]] * 2)], -1)
    loss = fqf_calculate_fraction_loss(q_ends, q_middles, ends, tensor([1, 1]), tensor([2.0, 0.0]))
    (gradient,) = torch.autograd.grad(loss, ends)
    assert gradient.tolist() == [[0.0, 2.0, -3.0, 0.0], [0.0] * 4]
    assert loss.item() == pytest.approx(2 * 0.25 - 3 * 0.75)
