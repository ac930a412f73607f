"""Losses of values by temporal differences, and what they are made of, by hand and against loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    bdq_nstep_td_error,
    inv_symlog,
    nstep_return,
    nstep_return_data,
    q_1step_td_data,
    q_1step_td_error,
    q_nstep_td_data,
    q_nstep_td_error,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
    symlog,
    v_1step_td_data,
    v_1step_td_error,
    v_nstep_td_data,
    v_nstep_td_error,
    value_inv_transform,
    value_transform,
)

Q, NEXT_Q = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[10.0, 20.0], [30.0, 40.0]])
V, NEXT_V = tensor([1.0, 4.0]), tensor([20.0, 30.0])  # of the actions 0 and 1, and of 1 and 0
AGENTS = (V[None], NEXT_V[None])
STEP = (tensor([0, 1]), tensor([1, 0]), tensor([0.5, -1.0]))  # actions, next actions, rewards
ACT, NEXT_ACT, REWARD = STEP
DONE, OPEN = tensor([False, True]), tensor([False, False])
BRANCH_Q = tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]).repeat(2, 1, 1)
TWO_STEPS = tensor([[1.0, 0.0], [2.0, 4.0]])  # rewards
ONE: dict[str, Any] = {"gamma": 0.9, "criterion": functional.l1_loss}
TWO: dict[str, Any] = {"gamma": 0.5, "nstep": 2, "criterion": functional.l1_loss}


def branches(q: Tensor, next_q: Tensor) -> q_nstep_td_data:
    return q_nstep_td_data(q, next_q, tensor([[0, 2], [1, 1]]), tensor([[1, 0], [1, 0]]), REWARD, DONE)


# Gamma 0.9: 0.5 + 0.9 * 20 - 1 = 17.5, and -1 + 0.9 * 30 - 4 = 22, or -1 - 4 = -5 at the end. Two agents share a
#   reward: 17.5 and 0.5 + 0.9 * 30 - 4 = 23.5, or 0.5 - 1 and 0.5 - 4 at the end.
# Branches: Q is 1 and 6, the next values are 20 and 40: 0.5 + 18 - 1 and 0.5 + 36 - 6 = 30.5; -1 - 2 and -1 - 5 at the
#   end. Two steps, gamma 1/2: 1 + 1/2 * 2 + 1/4 * 20 - 1 = 6, or with the discount 0.1: 3; 0 + 1/2 * 4 - 4 at the end.
@pytest.mark.parametrize(
    ("call", "loss", "each"),
    [
        (lambda: q_nstep_td_error(q_nstep_td_data(Q, NEXT_Q, *STEP, OPEN), 0.9, cum_reward=True), 395.125, [17.5, 22]),
        (lambda: (q_1step_td_error(q_1step_td_data(Q, NEXT_Q, *STEP, DONE), 0.9),), (17.5**2 + 25) / 2, None),
        (
            lambda: bdq_nstep_td_error(branches(BRANCH_Q, 10 * BRANCH_Q), 0.9, cum_reward=True),
            ((17.5**2 + 30.5**2) / 2 + (9 + 36) / 2) / 2, [24.0, 4.5],
        ),
        (lambda: q_v_1step_td_error(q_v_1step_td_data(Q, NEXT_V, ACT, REWARD, DONE), **ONE), 22.5 / 2, [17.5, 5]),
        (
            lambda: q_v_1step_td_error(q_v_1step_td_data(Q[None], NEXT_V[None], ACT[None], REWARD[:1], OPEN[:1]), 0.9),
            (17.5**2 + 23.5**2) / 2, [[17.5**2, 23.5**2]],
        ),
        (lambda: v_1step_td_error(v_1step_td_data(V, NEXT_V, REWARD, DONE), **ONE), 22.5 / 2, [17.5, 5]),
        (lambda: v_1step_td_error(v_1step_td_data(V, NEXT_V, REWARD, None), **ONE), 39.5 / 2, [17.5, 22]),
        (lambda: v_1step_td_error(v_1step_td_data(*AGENTS, REWARD[:1], DONE[1:]), **ONE), 2, [[0.5, 3.5]]),
        (lambda: v_1step_td_error(v_1step_td_data(*AGENTS, REWARD[:1], None), **ONE), 20.5, [[17.5, 23.5]]),
        (lambda: v_nstep_td_error(v_nstep_td_data(V, NEXT_V, TWO_STEPS, DONE, None, None), **TWO), 4, [6, 2]),
        (lambda: v_nstep_td_error(v_nstep_td_data(V, NEXT_V, TWO_STEPS, DONE, None, 0.1), **TWO), 2.5, [3, 2]),
        (lambda: v_nstep_td_error(v_nstep_td_data(V, NEXT_V, TWO_STEPS, DONE, None, V * 0 + 0.1), **TWO), 2.5, [3, 2]),
    ],
)  # fmt: skip
def test_losses_by_hand(call: Any, loss: float, each: Any) -> None:
    found, *others = call()
    assert found.item() == pytest.approx(loss)
    if each:
        torch.testing.assert_close(others[0], tensor(each, dtype=torch.float32))


def test_options_that_a_branch_lacks_leave_no_trace() -> None:
    q = BRANCH_Q.clone()
    q[:, 0, 2] = -torch.inf
    q.requires_grad_()
    loss, _ = bdq_nstep_td_error(branches(q, q.detach()), 0.9, cum_reward=True)
    (gradient,) = torch.autograd.grad(loss, q)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_symlog_by_hand_and_its_inverse() -> None:
    # log(e - 1 + 1) = 1
    torch.testing.assert_close(symlog(tensor([math.e - 1, 1 - math.e, 0.0])), tensor([1.0, -1.0, 0.0]))
    torch.testing.assert_close(inv_symlog(tensor([1.0, -1.0, 0.0])), tensor([math.e - 1, 1 - math.e, 0.0]))
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(inv_symlog(symlog(x)), x)


def test_small_values_keep_their_digits() -> None:
    assert symlog(tensor(1e-9)).item() == pytest.approx(1e-9)
    assert inv_symlog(tensor(1e-9)).item() == pytest.approx(1e-9)


def test_n_step_return_by_hand() -> None:
    # 1 + 0.5 * 2 + 0.25 * 4 = 3; 0 + 0.5 * 0 + 0.25 * 8 = 2. With the value: 3 + 0.125 * 16 = 5, and the terminal 2;
    # with the discount 0.5: 3 + 8 = 11.
    reward_TB = tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 8.0]])
    assert nstep_return(reward_TB, 0.5).tolist() == [3.0, 2.0]
    rewards = nstep_return_data(reward_TB, tensor([16.0, float("inf")]), tensor([0, 1]))
    assert nstep_return(rewards, 0.5, 3).tolist() == [5.0, 2.0]
    assert nstep_return(rewards, 0.5, 3, tensor([0.5, 0.5])).tolist() == [11.0, 2.0]
    with pytest.raises(ValueError, match="nstep=2 steps, got 3"):
        nstep_return(rewards, 0.5, 2)


def test_rescaled_targets_are_transformed_sums() -> None:
    gen = torch.Generator().manual_seed(0)
    q, next_q = torch.randn(2, 6, 3, dtype=torch.float64, generator=gen) * 5
    reward = torch.randn(2, 6, dtype=torch.float64, generator=gen) * 20
    action, next_action = torch.randint(3, (2, 6), generator=gen)
    done, value_gamma = torch.rand(6, generator=gen) < 0.4, torch.rand(6, dtype=torch.float64, generator=gen)
    some = q_nstep_td_data(q, next_q, action, next_action, reward, done)
    loss, error = q_nstep_td_error_with_rescale(some, 0.7, 2, value_gamma)
    following = value_inv_transform(next_q[range(6), next_action]) * value_gamma * ~done
    expected = value_transform(reward[0] + 0.7 * reward[1] + following) - q[range(6), action]
    torch.testing.assert_close(error, expected)
    torch.testing.assert_close(loss, expected.square().mean())
