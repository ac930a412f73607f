"""Discrete CQL on a chain of two states whose values are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ding_lite.policy import DiscreteCQLPolicy
from tests.policy.helpers import make_policy
from tests.policy.value.test_losses import Table, quantiles

# -- a chain of two states, gamma 1/2 ---------------------------------------------------------------------------------

# (state, action, reward, next state, terminal). From state 0, action 1 leads to state 1, from where action 0 ends with
# a reward of 1: values 1/2 and 1. Action 0 in state 0 stays there for 0.1, worth 0.1 + 1/4; action 1 in state 1 leads
# back, worth 1/4.
CHAIN = [(0, 0, 0.1, 0, False), (0, 1, 0.0, 1, False), (1, 0, 1.0, 0, True), (1, 1, 0.0, 0, False)]
EXPERT = [CHAIN[1], CHAIN[2]]
HOPE = 3.0  # what all actions seem to be worth at first


def chain_policy(steps: list[tuple[Any, ...]], *overrides: str, iterations: int = 600) -> DiscreteCQLPolicy:
    """Learn from these steps, all of them in every batch."""
    state, action, reward, next_state, done = (torch.tensor(column) for column in zip(*steps, strict=True))
    batch = {
        "obs": torch.eye(2)[state],
        "next_obs": torch.eye(2)[next_state],
        "action": action,
        "reward": reward,
        "done": done,
        "value_gamma": torch.full_like(reward, 0.5),
    }
    fixed = ("learn.learning_rate=0.03", "learn.target_update_freq=5")
    policy: Any = make_policy(*fixed, *overrides, model=Table([[[HOPE] * 4] * 2] * 2, quantiles), kind="discrete_cql")
    for _ in range(iterations):
        policy.learn(batch)
    return policy


def values_of(policy: DiscreteCQLPolicy) -> Tensor:
    return policy.act(np.eye(2), explore=False)["logit"]


def test_what_the_data_lack_is_believed_without_the_conservative_term() -> None:
    values = values_of(chain_policy(EXPERT, "learn.min_q_weight=0.0"))
    # the unseen actions stay as hoped for, and state 0 learns of state 1's: 1/2 * 3
    expected = torch.tensor([[HOPE, HOPE / 2], [1.0, HOPE]])
    torch.testing.assert_close(values, expected, atol=0.03, rtol=0)


def test_the_conservative_term_pushes_actions_outside_the_data_below_the_datas() -> None:
    policy = chain_policy(EXPERT, "learn.min_q_weight=0.3")
    values = values_of(policy)
    assert values[0, 0] < values[0, 1] - 1
    assert values[1, 1] < values[1, 0] - 1
    assert policy.act(np.eye(2), explore=False)["action"].tolist() == [1, 0]
    # and the data's are what the expert got, raised by little
    torch.testing.assert_close(values[[0, 1], [1, 0]], torch.tensor([0.5, 1.0]), atol=0.25, rtol=0)
