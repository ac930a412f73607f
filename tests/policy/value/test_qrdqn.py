"""QR-DQN's loss by hand, on quantiles that are written down."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.policy.helpers import make_policy, target_of


class Table(nn.Module):
    """Quantiles written down, `[S, A, K]`, for one-hot observations."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        q_BAK = torch.einsum("bs,sak->bak", obs, self.q)
        tau_K1 = ((torch.arange(self.q.shape[-1]) + 0.5) / self.q.shape[-1])[:, None]
        return {"logit": q_BAK.mean(-1), "q": q_BAK, "tau": tau_K1.expand(len(obs), -1, -1)}


ONLINE = [[[0.0, 2.0], [1.0, 3.0]], [[3.0, 5.0], [0.0, 0.0]]]
TARGET = [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [4.0, 6.0]]]


def table_policy(*overrides: str) -> Any:
    policy = make_policy(*overrides, model=Table(ONLINE), kind="qrdqn")
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """One step from state 0 by action 1 to state 1, and one from state 1 by action 0 to a terminal state."""
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 0]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.5, 0.5]),
        **more,
    }


# The probabilities are 1/4 and 3/4. Sample 0 has the quantiles 1 and 3.
#   Double: online, action 0 is the best in state 1; the target's quantiles of it are 0 and 2, the targets 1 and 2.
#     u of 1: 0, 1; u of 3: -2, -1. L with kappa 1: 1/4 (0 + 0.5) / 2 + 1/4 (1.5 + 0.5) / 2 = 0.0625 + 0.25
#     with kappa 0, |u|: 1/4 (0 + 1) / 2 + 1/4 (2 + 1) / 2 = 0.125 + 0.375
#   Not double: the target prefers action 1, 4 and 6, so the targets are 3 and 4.
#     u of 1: 2, 3; u of 3: 0, 1. kappa 1: 1/4 (1.5 + 2.5) / 2 + 3/4 (0 + 0.5) / 2 = 0.5 + 0.1875
# Sample 1 has 3 and 5, and the target -1: u = -4 and -6. kappa 1: 3/4 3.5 + 1/4 5.5 = 4; kappa 0: 3 + 1.5 = 4.5
LOSSES = {("True", "1.0"): (0.3125, 4.0), ("False", "1.0"): (0.6875, 4.0), ("True", "0.0"): (0.5, 4.5)}


@pytest.mark.parametrize("case", LOSSES, ids=str)
def test_loss_by_hand(case: tuple[str, str]) -> None:
    policy = table_policy(f"double={case[0]}", f"learn.kappa={case[1]}")
    loss, output = policy.loss(table_batch())
    assert output["priority"].tolist() == pytest.approx(LOSSES[case])
    assert loss.item() == pytest.approx(sum(LOSSES[case]) / 2)
    assert output["q_value"].mean().item() == pytest.approx((1 + 2 + 4 + 0) / 4)


def test_a_truncated_step_bootstraps_by_the_discount_of_the_steps_taken() -> None:
    # 1/4 for 1/2: the targets are 1 and 1.5. u of 1: 0, 0.5; u of 3: -2, -1.5. 1/4 (0.125) / 2 + 1/4 (1.5 + 1) / 2
    _, output = table_policy().loss(table_batch(value_gamma=torch.tensor([0.25, 0.5])))
    assert output["priority"][0].item() == pytest.approx(0.015625 + 0.3125)


def test_the_gradient_moves_the_quantiles_of_the_chosen_actions_alone() -> None:
    policy = table_policy("learn.kappa=0.0")
    policy.learn(table_batch())
    # Of |u|, half of the mean over targets of 1{u < 0} - tau. Sample 0: the quantile 1 has one target above it and one
    # that it equals (|u| has the derivative 0 there): -1/4 / 2; the quantile 3 has both below: 1/4. Sample 1: 3/4, 1/4.
    expected = torch.tensor([[[0.0, 0.0], [-0.0625, 0.125]], [[0.375, 0.125], [0.0, 0.0]]])
    torch.testing.assert_close(policy.model.q.grad, expected)
