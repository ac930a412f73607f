"""Soft Q-learning's loss by hand on a table of values, its exploration, and its keys."""

from __future__ import annotations

import math

import pytest
import torch

from ding_lite.policy import SQLPolicy
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import make_cfg, make_policy, same, target_of
from tests.policy.value.test_dqn import Table
from tests.policy.value.test_mdqn import ONLINE, TARGET, table_batch

LOG4 = math.log(4)


def table_policy(*overrides: str) -> SQLPolicy:
    policy = make_policy("learn.alpha=1.0", *overrides, model=Table(ONLINE), kind="sql")
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    assert isinstance(policy, SQLPolicy)
    return policy


# The soft value of both states is log 4 at temperature 1. 1 + 0.9 log 4 - 2, and -1 - 4 at the end.
ERRORS = [-1.0 + 0.9 * LOG4, -5.0]


def test_loss_by_hand() -> None:
    loss, output = table_policy().loss(table_batch())
    assert loss.item() == pytest.approx(sum(error**2 for error in ERRORS) / 2, rel=1e-5)
    assert output["priority"].tolist() == pytest.approx([abs(error) for error in ERRORS], rel=1e-5)
    assert output["soft_value"].tolist() == pytest.approx([LOG4, LOG4])


def test_a_truncated_sum_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    _, output = table_policy().loss(table_batch(value_gamma=torch.tensor([0.5, 0.9])))
    assert output["priority"][0].item() == pytest.approx(1.0 - 0.5 * LOG4, rel=1e-5)


def test_a_step_moves_the_chosen_actions_alone_and_the_target_follows() -> None:
    policy = table_policy("learn.target_update_freq=1")
    output = policy.learn(table_batch())
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, -ERRORS[0], 0], [0, -ERRORS[1], 0]]))
    assert same(list(target_of(policy).values()), list(policy.model.parameters()))
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


def test_it_collects_from_the_softmax_and_evaluates_the_argmax() -> None:
    torch.manual_seed(0)
    policy = table_policy()
    with torch.no_grad():
        next(policy.model.parameters()).copy_(torch.tensor(TARGET))  # 1/4, 3/4 and 0 in state 0
    obs = torch.eye(2)[:1].expand(20_000, 2)
    for eps, expected in ((0.0, [0.25, 0.75, 0.0]), (0.6, [0.3, 0.5, 0.2])):  # 0.4 of the former and 0.2 each
        action_N = policy.act(obs, eps=eps)["action"]
        shares = torch.bincount(action_N, minlength=3) / 20_000
        torch.testing.assert_close(shares, torch.tensor(expected), atol=0.015, rtol=0)  # standard deviation 0.0035
    assert policy.act(obs[:3], explore=False)["action"].tolist() == [1, 1, 1]


def test_the_temperature_must_be_above_zero() -> None:
    assert make_cfg(kind="sql").learn.alpha == 0.1
    with pytest.raises(ConfigError, match=r"policy.learn.alpha: expected a number above 0"):
        make_cfg("learn.alpha=0.0", kind="sql")
    with pytest.raises(ConfigError, match="double"):
        make_cfg("double=True", kind="sql")
