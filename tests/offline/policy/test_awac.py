"""AWAC's losses for one sample, by hand: mu(s) = s / 2 with a sigma of 2, and Q_c(s, a) = c a + s for c of 1 and 2."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.policy.continuous.helpers import Line, line_batch, losses, make_qac


def hand(*overrides: str, done: bool = False) -> Any:
    policy = make_qac("awac", *overrides, model=Line(normal=True))
    return policy, line_batch(done) | {"noise": {"next": torch.tensor([[0.1]]), "actor": torch.tensor([[0.05]])}}


@pytest.mark.parametrize(("done", "target"), [(False, 1 + 0.5 * 0.8), (True, 1.0)])
def test_the_critics_learn_the_value_of_the_policys_own_action(done: bool, target: float) -> None:
    policy, batch = hand(done=done)
    loss, figures = losses(policy, batch)["critic"]
    # a' = 0.4 / 2 + 2 * 0.1 = 0.4, so that min Q'(s', a') = 0.4 + 0.4
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2)
    assert figures["td_error"].item() == pytest.approx(target - 0.65)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_the_actor_imitates_by_the_advantage_over_its_own_action(beta: float) -> None:
    policy, batch = hand(f"learn.beta={beta}")
    loss, figures = losses(policy, batch)["actor"]
    # b = 0.25 + 2 * 0.05 = 0.35, so that A = min Q(s, 0.1) - min Q(s, 0.35) = 0.6 - 0.85
    assert figures["adv"].item() == pytest.approx(-0.25)
    logp = -0.5 * (0.15 / 2) ** 2 - math.log(2.0) - 0.5 * math.log(2 * math.pi)
    assert loss.item() == pytest.approx(-math.exp(-0.25 * beta) * logp, rel=1e-5)
    loss.backward()
    assert policy.model.critic.slope.grad.tolist() == [0.0, 0.0]  # the advantage is a weight
    assert policy.model.actor.slope.grad.abs() > 0


def test_importance_weights_scale_both_losses() -> None:
    policy, batch = hand("priority=True", "priority_IS_weight=True")
    whole = losses(policy, batch)
    half = losses(policy, batch | {"weight": torch.tensor([0.5])})
    for name in ("critic", "actor"):
        assert half[name][0].item() == pytest.approx(0.5 * whole[name][0].item())


def test_an_action_beyond_the_bounds_is_clipped() -> None:
    policy, batch = hand()
    batch["noise"]["next"] = torch.tensor([[5.0]])  # a' = 1, so that min Q' = 1.4 and y = 1.7
    assert losses(policy, batch)["critic"][1]["td_error"].item() == pytest.approx(1.7 - 0.65)
