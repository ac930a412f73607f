from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import qrdqn_nstep_td_data, qrdqn_nstep_td_error

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
