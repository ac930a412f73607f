"""Discrete CQL: its loss and gradient by hand, and a chain of two states whose values are known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import DiscreteCQLPolicy
from tests.policy.helpers import make_policy, target_of

EXP, LN = math.exp, math.log


class Table(nn.Module):
    """Quantiles written down, `[S, A, K]`, for one-hot observations."""

    def __init__(self, values: Any, num_quantiles: int = 1) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(values)[..., None].repeat(1, 1, num_quantiles))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        q_BAK = torch.einsum("bs,sak->bak", obs, self.q)
        tau_K1 = ((torch.arange(self.q.shape[-1]) + 0.5) / self.q.shape[-1])[:, None]
        return {"logit": q_BAK.mean(-1), "q": q_BAK, "tau": tau_K1.expand(len(obs), -1, -1)}


def make_cql(*overrides: str, model: nn.Module | None = None, image: bool = False) -> Any:
    return make_policy(*overrides, model=model, kind="discrete_cql", image=image)


ONLINE = [[1.0, 3.0], [4.0, 0.0]]
TARGET = [[0.0, 5.0], [2.0, 8.0]]


def table_policy(*overrides: str) -> DiscreteCQLPolicy:
    policy = make_cql(*overrides, model=Table(ONLINE))
    target_of(policy)["q"].copy_(torch.tensor(TARGET)[..., None])
    return policy


def table_batch() -> dict[str, Tensor]:
    """One step from state 0 by action 1 to state 1, and one from state 1 by action 0 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 0]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
    }


# One quantile, the median, is weighed by 1/2. In state 1 the online network prefers action 0, worth 2 to the target:
# 1 + 0.9 * 2 = 2.8 against Q = 3; the terminal step's -1 against Q = 4. Huber's L(0.2) = 0.02, L(5) = 4.5, or with a
# kappa of 10 12.5.
TD = {1.0: (0.01 + 2.25) / 2, 10.0: (0.01 + 6.25) / 2}
# log(e^1 + e^3) - 3 and log(e^4 + e^0) - 4
GAP = (LN(1 + EXP(-2)) + LN(1 + EXP(-4))) / 2


@pytest.mark.parametrize("kappa", TD)
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_loss_by_hand(kappa: float, weight: float) -> None:
    loss, output = table_policy(f"learn.kappa={kappa}", f"learn.min_q_weight={weight}").loss(table_batch())
    assert output["td_loss"].item() == pytest.approx(TD[kappa], rel=1e-5)
    assert output["min_q_loss"].item() == pytest.approx(GAP, rel=1e-5)
    assert loss.item() == pytest.approx(TD[kappa] + weight * GAP, rel=1e-5)
    assert output["q_value"].mean().item() == pytest.approx(2.0)  # 8 / 4


def test_the_gradient_raises_the_datas_actions_and_lowers_the_others() -> None:
    policy = table_policy("learn.min_q_weight=0.5")
    output = policy.learn(table_batch())
    # of the quantile loss 0.5 * 0.2 / 2 and 0.5 * 1 / 2; of the gap 0.5 / 2 (p of the other action) on both sides
    first, second = (0.25 / (1 + EXP(gap)) for gap in (2, 4))
    expected = torch.tensor([[first, 0.05 - first], [0.25 - second, second]])
    gradient = policy.model.get_parameter("q").grad
    assert gradient is not None
    torch.testing.assert_close(gradient[..., 0], expected)
    assert output["grad_norm"].item() == pytest.approx(expected.norm().item(), rel=1e-5)
    assert set(policy.monitor_vars()) <= set(output)
    assert not any(value.requires_grad for value in output.values())


def test_a_truncated_step_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    batch = table_batch() | {"value_gamma": torch.tensor([0.5, 0.9])}  # 1 + 0.5 * 2 = 2 against 3: L(1) = 0.5
    assert table_policy().loss(batch)[1]["td_loss"].item() == pytest.approx((0.25 + 2.25) / 2, rel=1e-5)


def test_with_ignore_done_terminal_states_are_bootstrapped_too() -> None:
    # in state 0 the online network prefers action 1, worth 5 to the target: -1 + 4.5 = 3.5 against 4: L(0.5) = 0.125
    output = table_policy("learn.ignore_done=True").loss(table_batch())[1]
    assert output["td_loss"].item() == pytest.approx((0.01 + 0.0625) / 2, rel=1e-5)


# -- a chain of two states, gamma 1/2 ---------------------------------------------------------------------------------

# (state, action, reward, next state, terminal). From state 0, action 1 leads to state 1, from where action 0 ends with
# a reward of 1: values 1/2 and 1. Action 0 in state 0 stays there for 0.1, worth 0.1 + 1/4; action 1 in state 1 leads
# back, worth 1/4.
CHAIN = [(0, 0, 0.1, 0, False), (0, 1, 0.0, 1, False), (1, 0, 1.0, 0, True), (1, 1, 0.0, 0, False)]
VALUES = [[0.35, 0.5], [1.0, 0.25]]
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
    policy = make_cql(*fixed, *overrides, model=Table([[HOPE] * 2] * 2, num_quantiles=4))
    for _ in range(iterations):
        policy.learn(batch)
    return policy


def values_of(policy: DiscreteCQLPolicy) -> Tensor:
    return policy.act(np.eye(2), explore=False)["logit"]


def test_without_the_conservative_term_the_values_of_the_data_are_learned() -> None:
    values = values_of(chain_policy(CHAIN, "learn.min_q_weight=0.0"))
    torch.testing.assert_close(values, torch.tensor(VALUES), atol=0.03, rtol=0)


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


# -- as every policy --------------------------------------------------------------------------------------------------
