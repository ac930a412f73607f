"""Losses of values, and what they are made of, by hand and against loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    bdq_nstep_td_error,
    generalized_lambda_returns,
    inv_symlog,
    m_q_1step_td_data,
    m_q_1step_td_error,
    multistep_forward_view,
    nstep_return,
    nstep_return_data,
    q_1step_td_data,
    q_1step_td_error,
    q_nstep_sql_td_error,
    q_nstep_td_data,
    q_nstep_td_error,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
    soft_value,
    symlog,
    td_lambda_data,
    td_lambda_error,
    upgo_loss,
    upgo_returns,
    v_1step_td_data,
    v_1step_td_error,
    v_nstep_td_data,
    v_nstep_td_error,
    value_inv_transform,
    value_transform,
)
from tests.rl_utils.test_policy_gradient import REWARDS as REWARD_TB
from tests.rl_utils.test_policy_gradient import VALUES as VALUE

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


LOG3, LOG4 = math.log(3), math.log(4)
SOFT = tensor([[0.0, LOG3], [0.0, LOG3]])  # with temperature 1 the policy is 1/4, 3/4, and the soft value log 4


def munchausen(**changes: Any) -> m_q_1step_td_data:
    base = m_q_1step_td_data(
        q=Q, target_q=SOFT, next_q=SOFT, act=tensor([0, 1]), reward=tensor([0.5, -1.0]), done=tensor([False, True])
    )
    return base._replace(**changes)


def naive_munchausen(data: m_q_1step_td_data, gamma: float, tau: float, alpha: float) -> list[float]:
    """Return the TD errors, as the paper's equation 2 sums them over actions."""
    errors = []
    for q, now, after, act, reward, done, *_ in zip(*(x.tolist() for x in data if x is not None), strict=True):
        policies = []
        for values in (now, after):
            weights = [math.exp(value / tau) for value in values]
            policies.append([weight / sum(weights) for weight in weights])
        bonus = min(max(tau * math.log(policies[0][act]), -1.0), 0.0)
        soft = sum(p * (value - tau * math.log(p)) for p, value in zip(policies[1], after, strict=True))
        errors.append(reward + alpha * bonus + (0.0 if done else gamma * soft) - q[act])
    return errors


def random_munchausen() -> m_q_1step_td_data:
    gen = torch.Generator().manual_seed(0)
    q, target_q, next_q = torch.randn(3, 64, 5, generator=gen, dtype=torch.float64)
    act = torch.randint(5, (64,), generator=gen)
    reward, weight = torch.randn(2, 64, generator=gen, dtype=torch.float64)
    return m_q_1step_td_data(q, target_q, next_q, act, reward, torch.rand(64, generator=gen) < 0.3, weight.abs())


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_munchausen_loss_is_that_of_loops_over_samples_and_actions(tau: float) -> None:
    data = random_munchausen()
    loss, error_B, action_gap, clipped_B = m_q_1step_td_error(data, 0.9, tau, 0.7)
    errors = naive_munchausen(data, 0.9, tau, 0.7)
    torch.testing.assert_close(error_B, tensor(errors, dtype=torch.float64))
    assert data.weight is not None
    weighed = [weight * error**2 for weight, error in zip(data.weight.tolist(), errors, strict=True)]
    assert loss.item() == pytest.approx(sum(weighed) / 64)
    gaps = [sorted(values)[-1] - sorted(values)[-2] for values in data.target_q.tolist()]
    assert action_gap.item() == pytest.approx(sum(gaps) / 64)
    assert 0 < clipped_B.mean() < 1


def of_temperature(**changes: Any) -> q_nstep_td_data:
    base = q_nstep_td_data(Q, SOFT, tensor([0, 1]), tensor([0, 0]), tensor([0.5, -1.0]), tensor([False, True]))
    return base._replace(**changes)


def test_soft_q_loss_by_hand() -> None:
    # Gamma 0.5, alpha 1: 0.5 + 0.5 log 4 - 1, and -1 - 4, which ended.
    loss, error_B, value_B = q_nstep_sql_td_error(of_temperature(), 0.5, 1.0, cum_reward=True)
    errors = [-0.5 + 0.5 * LOG4, -5.0]
    torch.testing.assert_close(error_B, tensor(errors))
    torch.testing.assert_close(value_B, tensor([LOG4, LOG4]))
    assert loss.item() == pytest.approx((errors[0] ** 2 + 25) / 2)


def test_small_temperatures_and_large_values_stay_finite() -> None:
    assert soft_value(tensor([[1e4, -1e4]]), 0.01).item() == pytest.approx(1e4)
    data = munchausen(target_q=SOFT * 1e4, next_q=SOFT * 1e4)
    assert all(torch.isfinite(part).all() for part in m_q_1step_td_error(data, 0.5, 0.03, 0.9))


def test_td_lambda_loss_by_hand() -> None:
    # Returns 4, 4, 4 as above: errors -1, -4, 0. Half the mean of squares: (1 + 16) / 6.
    value = VALUE.clone().requires_grad_()
    loss = td_lambda_error(td_lambda_data(value, REWARD_TB), 0.5, 0.5)
    assert loss.item() == pytest.approx(17 / 6)
    (gradient,) = torch.autograd.grad(loss, value)
    torch.testing.assert_close(gradient, tensor([[1.0], [4.0], [0.0], [0.0]]) / 3)  # the returns are constants
    weighed = td_lambda_error(td_lambda_data(VALUE, REWARD_TB, tensor([3.0])), 0.5, 0.5)
    assert weighed.item() == pytest.approx(17 / 2)


def test_upgo_returns_by_hand() -> None:
    # s_1: 2 + V(s_2) = 6 < 8, worse than expected: the first return stops, 1 + 8. s_2: 3 + 2 >= 4: 2 + (3 + 2).
    assert upgo_returns(REWARD_TB, VALUE).flatten().tolist() == [9.0, 7.0, 5.0]
    assert upgo_returns(REWARD_TB, torch.zeros(4, 1)).flatten().tolist() == [6.0, 5.0, 3.0]  # as good as expected


def test_upgo_loss_by_hand() -> None:
    # Advantages 9 - 5, 7 - 8, 5 - 4, weighed by rho 1, 2, 1/2. Policy 1/4, 3/4; actions 0, 1, 1.
    logit = tensor([0.0, math.log(3)]).expand(3, 1, 2).clone().requires_grad_()
    rho, action = tensor([[1.0], [2.0], [0.5]]), tensor([[0], [1], [1]])
    loss = upgo_loss(logit, rho, action, REWARD_TB, VALUE)
    weights = [4.0, -2.0, 0.5]
    logs = [math.log(p) for p in (0.25, 0.75, 0.75)]
    assert loss.item() == pytest.approx(-sum(w * log for w, log in zip(weights, logs, strict=True)) / 3)
    (gradient,) = torch.autograd.grad(loss, logit)
    # of -w log pi(a) / 3 by the first logit: -w (1{a = 0} - 1/4) / 3
    expected = [-w * (chosen - 0.25) / 3 for w, chosen in zip(weights, (1, 0, 0), strict=True)]
    torch.testing.assert_close(gradient[:, 0, 0], tensor(expected))


def test_upgo_sums_over_the_units_that_an_action_selects() -> None:
    gen = torch.Generator().manual_seed(0)
    logit, rho = torch.randn(3, 1, 4, 5, generator=gen), torch.rand(3, 1, generator=gen)
    action = torch.randint(5, (3, 1, 4), generator=gen)
    mask = tensor([1.0, 0.0, 1.0, 1.0]).expand(3, 1, 4)
    parts = [upgo_loss(logit[..., unit, :], rho, action[..., unit], REWARD_TB, VALUE) for unit in (0, 2, 3)]
    torch.testing.assert_close(upgo_loss(logit, rho, action, REWARD_TB, VALUE, mask), torch.stack(parts).sum())


@pytest.mark.parametrize(
    "call",
    [
        lambda: generalized_lambda_returns(VALUE[:-1], REWARD_TB, 0.5, 0.5),
        lambda: multistep_forward_view(VALUE, REWARD_TB, 0.5, 0.5),
        lambda: td_lambda_error(td_lambda_data(VALUE[1:], REWARD_TB)),
        lambda: upgo_returns(REWARD_TB, VALUE[1:]),
        lambda: upgo_loss(torch.zeros(3, 1, 2), torch.ones(3), torch.zeros(3, 1).long(), REWARD_TB, VALUE),
    ],
)
def test_shapes_of_returns_are_checked(call: Any) -> None:
    with pytest.raises(ValueError, match="same shape"):
        call()
