from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn, tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    bdq_nstep_td_error,
    discounts,
    inv_symlog,
    nstep_return,
    nstep_sums,
    q_nstep_td_data,
    q_nstep_td_error,
    symlog,
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


def test_rewards_of_n_steps_are_summed_and_the_bootstrap_discounted_n_times() -> None:
    # 1 + 0.5 * 1 + 0.25 * 20 = 6.5, less 1; 0 + 0.5 * 2 + 0.25 * 30 = 8.5, less 4
    reward = tensor([[1.0, 0.0], [1.0, 2.0]])
    _, td_error = q_nstep_td_error(data(reward=reward), gamma=0.5, nstep=2)
    torch.testing.assert_close(td_error, tensor([5.5, 4.5]))


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
