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
