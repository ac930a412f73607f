"""M-DQN's loss by hand on a table of values, its step, and its keys."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ding_lite.policy import MDQNPolicy
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import make_cfg, make_policy, same, target_of
from tests.policy.value.test_dqn import Table

LOG3 = math.log(3)
ONLINE = [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]
TARGET = [[0.0, LOG3, -100.0], [LOG3, 0.0, -100.0]]  # at temperature 1 the policy is 1/4 and 3/4, the soft value log 4


def table_policy(*overrides: str) -> MDQNPolicy:
    keys = ("entropy_tau=1.0", "m_alpha=0.5", "discount_factor=0.9", "nstep=1", *overrides)
    policy = make_policy(*keys, model=Table(ONLINE), kind="mdqn")
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    assert isinstance(policy, MDQNPolicy)
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by action 1 to state 1, and one from state 1 by action 1 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 1]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
        **more,
    }


# Action 1 has probability 3/4 in state 0: 1 + 0.5 log 3/4 + 0.9 log 4 - 2. In state 1 it has probability 1/4, and
# log 1/4 = -1.39 is clipped at -1: -1 - 0.5 - 4.
ERRORS = [1.0 + 0.5 * math.log(0.75) + 0.9 * math.log(4) - 2.0, -5.5]


def test_loss_by_hand() -> None:
    loss, output = table_policy().loss(table_batch())
    assert loss.item() == pytest.approx(sum(error**2 for error in ERRORS) / 2, rel=1e-5)
    assert output["priority"].tolist() == pytest.approx([abs(error) for error in ERRORS], rel=1e-5)
    assert output["action_gap"].item() == pytest.approx(LOG3)
    assert output["clip_frac"].mean().item() == 0.5


def test_a_step_moves_the_chosen_actions_alone_and_the_target_follows() -> None:
    policy = table_policy("learn.target_update_freq=1")
    output = policy.learn(table_batch())
    torch.testing.assert_close(policy.model.q.grad, torch.tensor([[0, -ERRORS[0], 0], [0, -ERRORS[1], 0]]))
    assert same(list(target_of(policy).values()), list(policy.model.parameters()))
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


def test_adams_epsilon_is_the_papers_and_one_step_is_all() -> None:
    cfg = make_cfg("nstep=1", kind="mdqn")
    assert (cfg.entropy_tau, cfg.m_alpha, cfg.learn.adam_eps) == (0.03, 0.9, 0.0003125)
    with pytest.raises(ConfigError, match=r"policy.nstep must be 1, got 3.*defined for one"):
        make_cfg("nstep=3", kind="mdqn")
    with pytest.raises(ConfigError, match=r"policy.entropy_tau: expected a number above 0"):
        make_cfg("nstep=1", "entropy_tau=0.0", kind="mdqn")
    with pytest.raises(ConfigError, match="double"):
        make_cfg("nstep=1", "double=True", kind="mdqn")
