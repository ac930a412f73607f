"""Losses of values by temporal differences, and what they are made of, by hand and against loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    bdq_nstep_td_error,
    discounts,
    inv_symlog,
    nstep_return,
    nstep_return_data,
    nstep_sums,
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

Q = tensor([[1.0, 2.0], [3.0, 4.0]])
NEXT_Q = tensor([[10.0, 20.0], [30.0, 40.0]])


def data(**changes: Any) -> q_nstep_td_data:
    base = q_nstep_td_data(
        q=Q, next_n_q=NEXT_Q, action=tensor([0, 1]), next_n_action=tensor([1, 0]),
        reward=tensor([0.5, -1.0]), done=tensor([False, False]), weight=None,
    )  # fmt: skip
    return base._replace(**changes)


def test_n_step_return_by_hand() -> None:
    # 1 + 0.5 * 2 + 0.25 * 4 = 3; 0 + 0.5 * 0 + 0.25 * 8 = 2
    assert nstep_return(tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 8.0]]), 0.5).tolist() == [3.0, 2.0]


def test_sums_of_rewards_end_at_the_first_cut() -> None:
    # Gamma 0.5. No cut: 1 + 0.5 * 2 + 0.25 * 4 = 3. Cut after the second: 2. After the first, and again: 1.
    reward_TB = tensor([[1.0], [2.0], [4.0]]).expand(3, 3)
    cut_TB = tensor([[False, False, True], [False, True, False], [True, False, True]])
    total_B, steps_B = nstep_sums(reward_TB, cut_TB, discounts(0.5, 3))
    assert total_B.tolist() == [3.0, 2.0, 1.0]
    assert steps_B.tolist() == [3, 2, 1]


def test_double_q_target_by_hand() -> None:
    # The chosen actions are evaluated, not the greedy ones: targets 0.5 + 0.9 * 20 = 18.5 and -1 + 0.9 * 30 = 26.
    # Errors 18.5 - 1 = 17.5 and 26 - 4 = 22; mean of squares (306.25 + 484) / 2 = 395.125.
    loss, td_error = q_nstep_td_error(data(), gamma=0.9, cum_reward=True)
    torch.testing.assert_close(td_error, tensor([17.5, 22.0]))
    assert loss.item() == pytest.approx(395.125)


BRANCH_Q = tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]).repeat(2, 1, 1)


def branches(**changes: Any) -> q_nstep_td_data:
    base = q_nstep_td_data(
        q=BRANCH_Q, next_n_q=10 * BRANCH_Q, action=tensor([[0, 2], [1, 1]]), next_n_action=tensor([[1, 0], [1, 0]]),
        reward=tensor([0.5, -1.0]), done=tensor([False, True]),
    )  # fmt: skip
    return base._replace(**changes)


def test_branching_loss_by_hand() -> None:
    # Gamma 0.9. Sample 0: Q is 1 and 6, the next values are 20 and 40; the targets 0.5 + 18 and 0.5 + 36 leave errors
    # of 17.5 and 30.5. Sample 1 ends: -1 against 2 and 5, errors -3 and -6.
    loss, error_B = bdq_nstep_td_error(branches(), 0.9, cum_reward=True)
    assert loss.item() == pytest.approx(((17.5**2 + 30.5**2) / 2 + (9 + 36) / 2) / 2)
    torch.testing.assert_close(error_B, tensor([24.0, 4.5]))


def test_options_that_a_branch_lacks_leave_no_trace() -> None:
    q = BRANCH_Q.clone()
    q[:, 0, 2] = -torch.inf
    q.requires_grad_()
    loss, _ = bdq_nstep_td_error(branches(q=q, next_n_q=q.detach()), 0.9, cum_reward=True)
    (gradient,) = torch.autograd.grad(loss, q)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


def test_the_transform_by_hand() -> None:
    # sqrt(4) - 1 + 0.01 * 3 = 1.03; sqrt(100) - 1 + 0.99 = 9.99; odd
    torch.testing.assert_close(value_transform(tensor([3.0, -3.0, 99.0, 0.0])), tensor([1.03, -1.03, 9.99, 0.0]))
    assert value_transform(tensor(3.0), 0.5).item() == pytest.approx(2.5)


def test_the_inverse_by_hand() -> None:
    # eps 1/2: (sqrt(1 + 2 (2.5 + 1 + 1/2)) - 1) / 1 = 2; 2^2 - 1 = 3, whose transform is 2.5
    torch.testing.assert_close(value_inv_transform(tensor([2.5, -2.5, 0.0]), 0.5), tensor([3.0, -3.0, 0.0]))


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 1.0])
def test_the_inverse_undoes_the_transform(eps: float) -> None:
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(value_inv_transform(value_transform(x, eps), eps), x)
    torch.testing.assert_close(value_transform(value_inv_transform(x, eps), eps), x)


def test_symlog_by_hand_and_its_inverse() -> None:
    # log(e - 1 + 1) = 1
    torch.testing.assert_close(symlog(tensor([math.e - 1, 1 - math.e, 0.0])), tensor([1.0, -1.0, 0.0]))
    torch.testing.assert_close(inv_symlog(tensor([1.0, -1.0, 0.0])), tensor([math.e - 1, 1 - math.e, 0.0]))
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(inv_symlog(symlog(x)), x)


def test_small_values_keep_their_digits() -> None:
    assert symlog(tensor(1e-9)).item() == pytest.approx(1e-9)
    assert inv_symlog(tensor(1e-9)).item() == pytest.approx(1e-9)


ACT, NEXT_ACT = tensor([0, 1]), tensor([1, 0])
REWARD, DONE = tensor([0.5, -1.0]), tensor([False, True])


def test_one_step_q_loss_by_hand() -> None:
    # 0.5 + 0.9 * 20 - 1 = 17.5; -1 - 4 = -5
    data = q_1step_td_data(Q, NEXT_Q, ACT, NEXT_ACT, REWARD, DONE)
    assert q_1step_td_error(data, 0.9).item() == pytest.approx((17.5**2 + 25) / 2)


def test_q_against_the_next_state_value_by_hand() -> None:
    # 0.5 + 0.9 * 20 - 1 = 17.5; -1 - 4 = -5
    data = q_v_1step_td_data(Q, tensor([20.0, 30.0]), ACT, REWARD, DONE)
    loss, each = q_v_1step_td_error(data, 0.9, functional.l1_loss)
    torch.testing.assert_close(each, tensor([17.5, 5.0]))
    assert loss.item() == pytest.approx(22.5 / 2)


def test_q_of_several_agents_shares_one_reward() -> None:
    # One sample of two agents that take 0 and 1: Q is 1 and 4; 0.5 + 0.9 * 20 - 1 = 17.5, 0.5 + 0.9 * 30 - 4 = 23.5
    data = q_v_1step_td_data(Q[None], tensor([[20.0, 30.0]]), ACT[None], REWARD[:1], DONE[:1])
    loss, each = q_v_1step_td_error(data, 0.9)
    torch.testing.assert_close(each, tensor([[17.5**2, 23.5**2]]))
    assert loss.item() == pytest.approx((17.5**2 + 23.5**2) / 2)


@pytest.mark.parametrize(("done", "errors"), [(DONE, [17.5, 5.0]), (None, [17.5, 22.0])])
def test_one_step_value_loss_by_hand(done: Any, errors: list[float]) -> None:
    # 0.5 + 0.9 * 20 - 1; -1 - 4, or -1 + 0.9 * 30 - 4
    data = v_1step_td_data(tensor([1.0, 4.0]), tensor([20.0, 30.0]), REWARD, done)
    loss, each = v_1step_td_error(data, 0.9, functional.l1_loss)
    torch.testing.assert_close(each, tensor(errors))
    assert loss.item() == pytest.approx(sum(errors) / 2)


@pytest.mark.parametrize("done", [tensor([True]), None])
def test_values_of_several_agents_share_one_reward(done: Any) -> None:
    data = v_1step_td_data(tensor([[1.0, 4.0]]), tensor([[20.0, 30.0]]), REWARD[:1], done)
    _, each = v_1step_td_error(data, 0.9, functional.l1_loss)
    # 0.5 - 1 and 0.5 - 4 at the end; else 18 and 27 more
    torch.testing.assert_close(each, tensor([[17.5, 23.5]]) if done is None else tensor([[0.5, 3.5]]))


@pytest.mark.parametrize(("value_gamma", "first"), [(None, 6.0), (tensor([0.1, 0.1]), 3.0), (0.1, 3.0)])
def test_n_step_value_loss_by_hand(value_gamma: Any, first: float) -> None:
    # gamma 1/2: 1 + 1/2 * 2 + 1/4 * 20 - 1 = 6, or with the discount 0.1: 3. Sample 1 ends: 0 + 1/2 * 4 - 4 = -2.
    reward_TB = tensor([[1.0, 0.0], [2.0, 4.0]])
    data = v_nstep_td_data(tensor([1.0, 4.0]), tensor([20.0, 30.0]), reward_TB, DONE, None, value_gamma)
    loss, each = v_nstep_td_error(data, 0.5, 2, functional.l1_loss)
    torch.testing.assert_close(each, tensor([first, 2.0]))
    assert loss.item() == pytest.approx((first + 2.0) / 2)


def test_n_step_return_with_the_value_after_the_rewards_by_hand() -> None:
    # 3 + 0.125 * 16 = 5, and the terminal 2; with the discount 0.5: 3 + 8 = 11
    reward_TB = tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 8.0]])
    rewards = nstep_return_data(reward_TB, tensor([16.0, float("inf")]), tensor([0, 1]))
    assert nstep_return(rewards, 0.5, 3).tolist() == [5.0, 2.0]
    assert nstep_return(rewards, 0.5, 3, tensor([0.5, 0.5])).tolist() == [11.0, 2.0]
    with pytest.raises(ValueError, match="nstep=2 steps, got 3"):
        nstep_return(rewards, 0.5, 2)


def test_rescaled_targets_agree_with_a_naive_loop() -> None:
    gen = torch.Generator().manual_seed(0)
    q, next_q = torch.randn(2, 6, 3, dtype=torch.float64, generator=gen) * 5
    reward = torch.randn(2, 6, dtype=torch.float64, generator=gen) * 20
    action, next_action = torch.randint(3, (2, 6), generator=gen)
    done, value_gamma = torch.rand(6, generator=gen) < 0.4, torch.rand(6, dtype=torch.float64, generator=gen)
    some = q_nstep_td_data(q, next_q, action, next_action, reward, done)
    loss, error = q_nstep_td_error_with_rescale(some, 0.7, 2, value_gamma)

    def h(x: float) -> float:
        return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + 0.01 * x

    def inverse(y: float) -> float:  # by bisection
        low, high = -1e6, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if h(middle) < y else (low, middle)
        return low

    for b in range(6):
        total = float(reward[0, b] + 0.7 * reward[1, b])
        total += 0.0 if done[b] else float(value_gamma[b]) * inverse(float(next_q[b, next_action[b]]))
        assert error[b].item() == pytest.approx(h(total) - float(q[b, action[b]]), abs=1e-8)
    assert loss.item() == pytest.approx(float(error.square().mean()))
