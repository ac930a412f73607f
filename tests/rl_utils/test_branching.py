"""The loss of branching Q-learning, by hand and against loops over samples and branches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn, tensor

from ding_lite.rl_utils import bdq_nstep_td_error, q_nstep_td_data

Q = tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]).repeat(2, 1, 1)


def data(**changes: Any) -> q_nstep_td_data:
    base = q_nstep_td_data(
        q=Q, next_n_q=10 * Q, action=tensor([[0, 2], [1, 1]]), next_n_action=tensor([[1, 0], [1, 0]]),
        reward=tensor([0.5, -1.0]), done=tensor([False, True]),
    )  # fmt: skip
    return base._replace(**changes)


# Gamma 0.9. Sample 0: Q is 1 and 6, the next values are 20 and 40. Own targets: 0.5 + 18 and 0.5 + 36, errors 17.5 and
# 30.5. The mean target: 0.5 + 0.9 * 30, errors 26.5 and 21.5. Sample 1 ends: -1 against 2 and 5, errors -3 and -6.
ERRORS = {False: [[17.5, 30.5], [-3.0, -6.0]], True: [[26.5, 21.5], [-3.0, -6.0]]}


@pytest.mark.parametrize("mean_target", ERRORS)
def test_loss_by_hand(mean_target: bool) -> None:
    squares = [(first**2 + second**2) / 2 for first, second in ERRORS[mean_target]]
    loss, error_B = bdq_nstep_td_error(data(), 0.9, cum_reward=True, mean_target=mean_target)
    assert loss.item() == pytest.approx(sum(squares) / 2)
    torch.testing.assert_close(error_B, tensor([24.0, 4.5]))
    weighed, error_B = bdq_nstep_td_error(
        data(weight=tensor([2.0, 0.5])), 0.9, cum_reward=True, mean_target=mean_target
    )
    assert weighed.item() == pytest.approx((2.0 * squares[0] + 0.5 * squares[1]) / 2)
    torch.testing.assert_close(error_B, tensor([24.0, 4.5]))  # of each sample as it is


def test_rewards_of_n_steps_are_summed_and_the_bootstrap_is_discounted() -> None:
    # 1 + 0.5 * 2 + 0.25 * 20 = 7 and 1 + 0.5 * 2 + 0.25 * 40 = 12, less 1 and 6; then value_gamma 0.1: 4 and 6
    reward_TB = tensor([[1.0, 0.0], [2.0, 0.0]])
    _, error_B = bdq_nstep_td_error(data(reward=reward_TB), 0.5, 2)
    assert error_B[0].item() == pytest.approx((6.0 + 6.0) / 2)
    _, error_B = bdq_nstep_td_error(data(reward=reward_TB), 0.5, 2, False, tensor([0.1, 0.1]))
    assert error_B[0].item() == pytest.approx((3.0 + 0.0) / 2)


@pytest.mark.parametrize("mean_target", [False, True])
def test_loss_is_that_of_loops_over_samples_and_branches(mean_target: bool) -> None:
    gen = torch.Generator().manual_seed(0)
    q, next_q = torch.randn(2, 32, 4, 5, generator=gen, dtype=torch.float64)
    action, next_action = torch.randint(5, (2, 32, 4), generator=gen)
    reward, weight = torch.randn(2, 32, generator=gen, dtype=torch.float64)
    done = torch.rand(32, generator=gen) < 0.3
    total = 0.0
    for b in range(32):
        after = [float(next_q[b, d, next_action[b, d]]) for d in range(4)]
        for d in range(4):
            value = sum(after) / 4 if mean_target else after[d]
            target = float(reward[b]) + (0.0 if done[b] else 0.9**3 * value)
            total += float(weight[b]) * abs(target - float(q[b, d, action[b, d]])) / 4
    inputs = q_nstep_td_data(q, next_q, action, next_action, reward, done, weight)
    loss, _ = bdq_nstep_td_error(inputs, 0.9, 3, True, None, nn.L1Loss(reduction="none"), mean_target)
    assert loss.item() == pytest.approx(total / 32)


def test_the_gradient_is_that_of_the_chosen_options_alone() -> None:
    q, next_q = Q.clone().requires_grad_(), (10 * Q).requires_grad_()
    loss, error_B = bdq_nstep_td_error(data(q=q, next_n_q=next_q), 0.9, cum_reward=True)
    gradient, none = torch.autograd.grad(loss, [q, next_q], allow_unused=True)
    assert none is None
    assert not error_B.requires_grad
    # of a mean of two samples and two branches: half of minus the error
    expected = tensor([[[-8.75, 0.0, 0.0], [0.0, 0.0, -15.25]], [[0.0, 1.5, 0.0], [0.0, 3.0, 0.0]]])
    torch.testing.assert_close(gradient, expected)


def test_options_that_a_branch_lacks_leave_no_trace() -> None:
    q = Q.clone()
    q[:, 0, 2] = -torch.inf
    q.requires_grad_()
    loss, _ = bdq_nstep_td_error(data(q=q, next_n_q=q.detach()), 0.9, cum_reward=True)
    (gradient,) = torch.autograd.grad(loss, q)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"\[B, D, A\]"):
        bdq_nstep_td_error(data(next_n_q=Q[:, 0]), 0.9, cum_reward=True)
    with pytest.raises(ValueError, match=r"\[T, B\]"):
        bdq_nstep_td_error(data(), 0.9)
