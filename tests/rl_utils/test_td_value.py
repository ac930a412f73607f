"""Losses of one step and of state values, by hand and against loops over samples."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn, tensor
from torch.nn import functional

from ding_lite.rl_utils import (
    nstep_return,
    nstep_return_data,
    q_1step_td_data,
    q_1step_td_error,
    q_nstep_td_data,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
    v_1step_td_data,
    v_1step_td_error,
    v_nstep_td_data,
    v_nstep_td_error,
)

Q, NEXT_Q = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[10.0, 20.0], [30.0, 40.0]])
ACT, NEXT_ACT = tensor([0, 1]), tensor([1, 0])
REWARD, DONE = tensor([0.5, -1.0]), tensor([False, True])
WEIGHT = tensor([2.0, 0.5])
CRITERIA = pytest.mark.parametrize("criterion", [functional.l1_loss, nn.L1Loss(reduction="none")])


def test_one_step_q_loss_by_hand() -> None:
    # 0.5 + 0.9 * 20 - 1 = 17.5; -1 - 4 = -5
    data = q_1step_td_data(Q, NEXT_Q, ACT, NEXT_ACT, REWARD, DONE)
    assert q_1step_td_error(data, 0.9).item() == pytest.approx((17.5**2 + 25) / 2)
    weighed = q_1step_td_error(data._replace(weight=WEIGHT), 0.9, nn.L1Loss(reduction="none"))
    assert weighed.item() == pytest.approx((2 * 17.5 + 0.5 * 5) / 2)


@CRITERIA
def test_q_against_the_next_state_value_by_hand(criterion: Any) -> None:
    # 0.5 + 0.9 * 20 - 1 = 17.5; -1 - 4 = -5
    data = q_v_1step_td_data(Q, tensor([20.0, 30.0]), ACT, REWARD, DONE)
    loss, each = q_v_1step_td_error(data, 0.9, criterion)
    torch.testing.assert_close(each, tensor([17.5, 5.0]))
    assert loss.item() == pytest.approx(22.5 / 2)
    assert q_v_1step_td_error(data._replace(weight=WEIGHT), 0.9, criterion)[0].item() == pytest.approx(37.5 / 2)


def test_q_of_several_agents_shares_one_reward() -> None:
    # One sample of two agents that take 0 and 1: Q is 1 and 4; 0.5 + 0.9 * 20 - 1 = 17.5, 0.5 + 0.9 * 30 - 4 = 23.5
    data = q_v_1step_td_data(Q[None], tensor([[20.0, 30.0]]), ACT[None], REWARD[:1], DONE[:1])
    loss, each = q_v_1step_td_error(data, 0.9)
    torch.testing.assert_close(each, tensor([[17.5**2, 23.5**2]]))
    assert loss.item() == pytest.approx((17.5**2 + 23.5**2) / 2)


@CRITERIA
@pytest.mark.parametrize(("done", "errors"), [(DONE, [17.5, 5.0]), (None, [17.5, 22.0])])
def test_one_step_value_loss_by_hand(done: Any, errors: list[float], criterion: Any) -> None:
    # 0.5 + 0.9 * 20 - 1; -1 - 4, or -1 + 0.9 * 30 - 4
    data = v_1step_td_data(tensor([1.0, 4.0]), tensor([20.0, 30.0]), REWARD, done)
    loss, each = v_1step_td_error(data, 0.9, criterion)
    torch.testing.assert_close(each, tensor(errors))
    assert loss.item() == pytest.approx(sum(errors) / 2)
    weighed, _ = v_1step_td_error(data._replace(weight=WEIGHT), 0.9, criterion)
    assert weighed.item() == pytest.approx((2 * errors[0] + 0.5 * errors[1]) / 2)


@pytest.mark.parametrize("done", [tensor([True]), None])
def test_values_of_several_agents_share_one_reward(done: Any) -> None:
    data = v_1step_td_data(tensor([[1.0, 4.0]]), tensor([[20.0, 30.0]]), REWARD[:1], done)
    _, each = v_1step_td_error(data, 0.9, functional.l1_loss)
    # 0.5 - 1 and 0.5 - 4 at the end; else 18 and 27 more
    torch.testing.assert_close(each, tensor([[17.5, 23.5]]) if done is None else tensor([[0.5, 3.5]]))


@CRITERIA
@pytest.mark.parametrize(("value_gamma", "first"), [(None, 6.0), (tensor([0.1, 0.1]), 3.0), (0.1, 3.0)])
def test_n_step_value_loss_by_hand(value_gamma: Any, first: float, criterion: Any) -> None:
    # gamma 1/2: 1 + 1/2 * 2 + 1/4 * 20 - 1 = 6, or with the discount 0.1: 3. Sample 1 ends: 0 + 1/2 * 4 - 4 = -2.
    reward_TB = tensor([[1.0, 0.0], [2.0, 4.0]])
    data = v_nstep_td_data(tensor([1.0, 4.0]), tensor([20.0, 30.0]), reward_TB, DONE, None, value_gamma)
    loss, each = v_nstep_td_error(data, 0.5, 2, criterion)
    torch.testing.assert_close(each, tensor([first, 2.0]))
    assert loss.item() == pytest.approx((first + 2.0) / 2)
    weighed, _ = v_nstep_td_error(data._replace(weight=WEIGHT), 0.5, 2, criterion)
    assert weighed.item() == pytest.approx((2 * first + 1.0) / 2)
    with pytest.raises(ValueError, match="nstep=3 steps, got 2"):
        v_nstep_td_error(data, 0.5, 3)


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
