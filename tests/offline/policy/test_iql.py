from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ding_lite.offline.policy.iql import LEAST_SIGMA
from tests.policy.continuous.helpers import Line, line_batch, losses, make_batch, make_qac


def hand(*overrides: str, done: bool = False, **known: float) -> Any:
    policy = make_qac("iql", *overrides, model=Line(normal=True))
    batch = line_batch(done) | {"adv": torch.tensor([0.4]), "next_value": torch.tensor([0.16])}
    return policy, batch | {key: torch.tensor([value]) for key, value in known.items()}


def test_the_value_learns_an_expectile_of_the_lesser_target_value() -> None:
    policy, batch = hand("learn.tau=0.8")
    loss, figures = losses(policy, batch)["value"]
    # Q' is 0.6 and 0.7, V(s) = 0.4 * 0.5
    assert loss.item() == pytest.approx(0.8 * 0.4**2)
    assert [figures["adv"].item(), figures["v_value"].item()] == pytest.approx([0.4, 0.2])
    with torch.no_grad():
        policy.model.value.slope[0] = 4.0  # V(s) = 0.8, above Q'
    assert losses(policy, batch)["value"][0].item() == pytest.approx(0.2 * 0.2**2)


@pytest.mark.parametrize(("done", "target"), [(False, 1 + 0.5 * 0.16), (True, 1.0)])
def test_the_critics_learn_the_value_of_what_follows(done: bool, target: float) -> None:
    policy, batch = hand(done=done)
    loss, figures = losses(policy, batch)["critic"]
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2)
    assert figures["q_value"].flatten().tolist() == pytest.approx([0.6, 0.7])


@pytest.mark.parametrize(("adv", "weight"), [(0.4, math.exp(0.8)), (-0.4, math.exp(-0.8)), (5.0, 100.0)])
def test_the_actor_imitates_by_the_exponential_of_the_advantage(adv: float, weight: float) -> None:
    policy, batch = hand("learn.beta=2.0", adv=adv)
    loss, figures = losses(policy, batch)["actor"]
    # the normal has mean 0.25 and deviation 2, the action is 0.1
    logp = -0.5 * (0.15 / 2) ** 2 - math.log(2.0) - 0.5 * math.log(2 * math.pi)
    assert figures["log_prob"].item() == pytest.approx(logp)
    assert figures["adv_weight"].item() == pytest.approx(weight, rel=1e-5)
    assert loss.item() == pytest.approx(-weight * logp, rel=1e-5)


def test_a_likelihood_without_bound_does_not_shrink_sigma_for_ever() -> None:
    policy = make_qac("iql")
    batch = make_batch(8) | {"adv": torch.zeros(8)}
    with torch.no_grad():
        batch["action"] = policy.model.actor(batch["obs"])["mu"].clone()
        policy.model.actor.head.log_sigma_param.fill_(-50.0)
    logp = losses(policy, policy._prepare(batch) | {"next_value": torch.zeros(8)})["actor"][1]["log_prob"]
    assert logp.mean().item() == pytest.approx(-2 * (math.log(LEAST_SIGMA) + 0.5 * math.log(2 * math.pi)))


def test_all_losses_see_the_networks_as_they_were_before_the_iteration() -> None:
    policy = make_qac("iql")
    with torch.no_grad():
        target = policy._prepare(make_batch(8))
        q = policy._target_critic(target["obs"], action=target["action"]).amin(0)
        adv = q - policy.model.value(target["obs"])[0]
        next_value = policy.model.value(target["next_obs"])[0]
        expected = losses(policy, target | {"adv": adv, "next_value": next_value})
    output = policy.learn(make_batch(8))
    for name in ("value", "critic", "actor"):
        assert output[f"{name}_loss"].item() == pytest.approx(expected[name][0].item(), rel=1e-6)
    assert torch.equal(output["adv"], adv)
