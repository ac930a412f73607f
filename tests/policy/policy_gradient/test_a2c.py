"""A2C's loss by hand, and what it makes of a collect; the numbers of `actors.hand_block`."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import A2CPolicy
from tests.policy.actors import Table, make_actor

LN = math.log
ENTROPY = -0.75 * LN(0.75) - 0.25 * LN(0.25)


def table_policy(*overrides: str) -> A2CPolicy:
    """Action 0 has probability 3/4 in both states, whose values are 1 and -1."""
    return make_actor("a2c", *overrides, model=Table([[LN(3), 0.0]] * 2, [1.0, -1.0]))


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    return {
        "obs": torch.eye(2),
        "action": torch.tensor([0, 1]),
        "adv": torch.tensor([2.0, -1.0]),
        "return_": torch.tensor([2.0, 1.0]),
        **more,
    }


@pytest.mark.parametrize("weight", [None, [0.5, 1.5]])
def test_loss_by_hand(weight: list[float] | None) -> None:
    first, second = weight or (1.0, 1.0)
    batch = table_batch(**({"weight": torch.tensor(weight)} if weight else {}))
    loss, output = table_policy("learn.value_weight=0.25", "learn.entropy_weight=0.1").loss(batch)
    policy_loss = -(first * 2 * LN(0.75) + second * -1 * LN(0.25)) / 2
    value_loss = (first * 1**2 + second * 2**2) / 2  # not halved, as DI-engine's
    assert output["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-5)
    assert output["value_loss"].item() == pytest.approx(value_loss, rel=1e-5)
    assert output["entropy"].item() == pytest.approx(ENTROPY, rel=1e-5)
    assert loss.item() == pytest.approx(policy_loss + 0.25 * value_loss - 0.1 * ENTROPY, rel=1e-5)
    assert not any(value.requires_grad for value in output.values())


def test_the_step_is_adams_against_the_gradient_of_actor_and_critic() -> None:
    policy = table_policy("learn.learning_rate=0.01", "learn.grad_clip_type=None", "learn.entropy_weight=0.0")
    output = policy.learn(table_batch())
    # d/dlogit of -adv log p(a) / 2: adv / 2 * (p - 1 at a, p elsewhere); of 0.5 (R - V)^2 / 2: -0.5 (R - V)
    logit = torch.tensor([[-0.25, 0.25], [-0.375, 0.375]])
    value = torch.tensor([-0.5, -1.0])
    torch.testing.assert_close(policy.model.get_parameter("_parts.logit").grad, logit)
    torch.testing.assert_close(policy.model.value.grad, value)
    norm = math.sqrt(2 * 0.25**2 + 2 * 0.375**2 + 0.5**2 + 1)
    assert output["grad_norm"].item() == pytest.approx(norm, rel=1e-5)
    stepped: Any = policy.model.value
    assert stepped.tolist() == pytest.approx([1.01, -0.99], rel=1e-4)  # Adam's first step: the rate
    assert set(policy.monitor_vars()) - {"explained_variance"} <= set(output)  # it is of a collect
