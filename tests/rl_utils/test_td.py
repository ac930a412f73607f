from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn, tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    discounts,
    nstep_return,
    nstep_sums,
    q_nstep_td_data,
    q_nstep_td_error,
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


def test_sums_of_rewards_take_any_shape_of_samples() -> None:
    reward_T23 = torch.arange(24.0).view(4, 2, 3)
    cut_T23 = torch.arange(24).view(4, 2, 3) % 7 == 6
    total_23, steps_23 = nstep_sums(reward_T23, cut_T23, discounts(0.5, 4))
    flat_6, flat_steps_6 = nstep_sums(reward_T23.flatten(1), cut_T23.flatten(1), discounts(0.5, 4))
    assert torch.equal(total_23.flatten(), flat_6)
    assert torch.equal(steps_23.flatten(), flat_steps_6)


def test_double_q_target_by_hand() -> None:
    # The chosen actions are evaluated, not the greedy ones: targets 0.5 + 0.9 * 20 = 18.5 and -1 + 0.9 * 30 = 26.
    # Errors 18.5 - 1 = 17.5 and 26 - 4 = 22; mean of squares (306.25 + 484) / 2 = 395.125.
    loss, td_error = q_nstep_td_error(data(), gamma=0.9, cum_reward=True)
    torch.testing.assert_close(td_error, tensor([17.5, 22.0]))
    assert loss.item() == pytest.approx(395.125)


def test_a_terminal_state_has_no_value() -> None:
    _, td_error = q_nstep_td_error(data(done=tensor([True, False])), gamma=0.9, cum_reward=True)
    torch.testing.assert_close(td_error, tensor([-0.5, 22.0]))  # 0.5 - 1; the other as before


def test_a_value_that_is_not_finite_does_not_leak_through_done() -> None:
    next_q = tensor([[float("inf"), float("inf")], [30.0, 40.0]])
    loss, _ = q_nstep_td_error(data(next_n_q=next_q, done=tensor([True, False])), gamma=0.9, cum_reward=True)
    assert torch.isfinite(loss)


def test_rewards_of_n_steps_are_summed_and_the_bootstrap_discounted_n_times() -> None:
    # 1 + 0.5 * 1 + 0.25 * 20 = 6.5, less 1; 0 + 0.5 * 2 + 0.25 * 30 = 8.5, less 4
    reward = tensor([[1.0, 0.0], [1.0, 2.0]])
    _, td_error = q_nstep_td_error(data(reward=reward), gamma=0.5, nstep=2)
    torch.testing.assert_close(td_error, tensor([5.5, 4.5]))


def test_value_gamma_replaces_gamma_to_the_n() -> None:
    # 0.5 + 0.1 * 20 - 1 = 1.5; -1 + 0.2 * 30 - 4 = 1
    _, td_error = q_nstep_td_error(data(), gamma=0.9, nstep=3, cum_reward=True, value_gamma=tensor([0.1, 0.2]))
    torch.testing.assert_close(td_error, tensor([1.5, 1.0]))


@pytest.mark.parametrize("criterion", [functional.mse_loss, functional.smooth_l1_loss])
def test_weights_enter_whatever_the_criterion(criterion: Any) -> None:
    weighted, _ = q_nstep_td_error(data(weight=tensor([2.0, 0.0])), 0.9, cum_reward=True, criterion=criterion)
    first = criterion(tensor(1.0), tensor(18.5))
    assert weighted.item() == pytest.approx(2.0 * first.item() / 2)
    ones, _ = q_nstep_td_error(data(weight=tensor([1.0, 1.0])), 0.9, cum_reward=True, criterion=criterion)
    none, _ = q_nstep_td_error(data(), 0.9, cum_reward=True, criterion=criterion)
    assert ones.item() == pytest.approx(none.item())


@pytest.mark.parametrize("weight", [None, tensor([2.0, 0.5])])
@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.MSELoss(reduction="none"), functional.mse_loss),
        (nn.SmoothL1Loss(reduction="none"), functional.smooth_l1_loss),
    ],
)
def test_a_criterion_may_be_a_module_as_in_di_engine(module: Any, function: Any, weight: Any) -> None:
    results = [q_nstep_td_error(data(weight=weight), 0.9, 1, True, None, criterion) for criterion in (module, function)]
    assert all(torch.equal(left, right) for left, right in zip(*results, strict=True))


def test_a_module_that_reduces_is_refused() -> None:
    with pytest.raises(ValueError, match=r"criterion .*MSELoss\(\) with reduction='none'"):
        q_nstep_td_error(data(), 0.9, cum_reward=True, criterion=nn.MSELoss())


def test_gradient_flows_through_q_alone() -> None:
    q, next_q = Q.clone().requires_grad_(), NEXT_Q.clone().requires_grad_()
    loss, td_error = q_nstep_td_error(data(q=q, next_n_q=next_q), 0.9, cum_reward=True)
    loss.backward()
    assert next_q.grad is None
    assert not td_error.requires_grad
    torch.testing.assert_close(q.grad, tensor([[-17.5, 0.0], [0.0, -22.0]]))  # d mean(e^2) / dq = -e, for two samples


def test_arguments_are_not_written_into() -> None:
    before: Any = data(weight=tensor([1.0, 2.0]))
    copies = [value.clone() for value in before]
    q_nstep_td_error(before, 0.9, cum_reward=True)
    for value, copy in zip(before, copies, strict=True):
        torch.testing.assert_close(value, copy)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"\[B, A\]"):
        q_nstep_td_error(data(next_n_q=NEXT_Q[:1]), 0.9, cum_reward=True)
    with pytest.raises(ValueError, match=r"\[T, B\]"):
        q_nstep_td_error(data(), 0.9)
