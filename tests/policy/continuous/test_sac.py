from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from tests.policy.continuous.helpers import Line, line_batch, losses, make_batch, make_qac

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def hand(*overrides: str, noise: float = 0.0, done: bool = False, kind: str = "sac") -> Any:
    """Return a policy of Line networks and a batch with this noise for both of its actions; alpha is 0.5."""
    policy = make_qac(kind, "learn.alpha=0.5", *overrides, model=Line(normal=True))
    drawn = torch.full((1, 1), noise)
    return policy, line_batch(done) | {"log_prob": torch.tensor([-3.0]), "noise": {"next": drawn, "actor": drawn}}


def log_prob(mu: float, noise: float = 0.0) -> float:
    """Of the action tanh(mu + 2 noise) of a normal variable with the standard deviation 2."""
    slope = 1 - math.tanh(mu + 2 * noise) ** 2
    return -0.5 * noise**2 - HALF_LOG_TWO_PI - math.log(2.0) - math.log(slope)


@pytest.mark.parametrize("noise", [0.0, 0.3, -0.5])
def test_the_critics_learn_the_lesser_value_of_a_drawn_action_and_its_entropy(noise: float) -> None:
    policy, batch = hand(noise=noise)
    loss, figures = losses(policy, batch)["critic"]
    action = math.tanh(0.2 + 2 * noise)  # in s' = 0.4
    value = min(action, 2 * action) + 0.4 - 0.5 * log_prob(0.2, noise)
    target = 1 + 0.5 * value
    errors = [abs(target - 0.6), abs(target - 0.7)]  # Q(s, a) is 0.1 + 0.5 and 0.2 + 0.5
    assert loss.item() == pytest.approx(errors[0] ** 2 + errors[1] ** 2, rel=1e-5)
    assert figures["priority"].tolist() == pytest.approx([sum(errors) / 2], rel=1e-5)


@pytest.mark.parametrize("kind", ["sac", "cql"])
def test_the_actor_weighs_its_entropy_against_the_lesser_value(kind: str) -> None:
    policy, batch = hand(noise=0.3, kind=kind)
    loss, figures = policy._actor_loss(batch)
    assert figures["log_prob"].item() == pytest.approx(log_prob(0.25, 0.3), rel=1e-5)
    assert loss.item() == pytest.approx(0.5 * log_prob(0.25, 0.3) - (math.tanh(0.85) + 0.5), rel=1e-5)
    loss.backward()
    # u = 0.5 slope + 0.6: du/dslope = 0.5, d log pi / du = 2 tanh(u), dQ / du = 1 - tanh(u)^2
    slope = 0.5 * (0.5 * 2 * math.tanh(0.85) - (1 - math.tanh(0.85) ** 2))
    assert policy.model.actor.slope.grad.item() == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(
    ("overrides", "learned", "target"),
    [
        ([], math.log(0.5), -1.0),
        (["learn.target_entropy=-2.0"], math.log(0.5), -2.0),
        (["learn.log_space=False"], 0.5, -1.0),
    ],
)
@pytest.mark.parametrize("kind", ["sac", "cql"])
def test_alpha_follows_the_target_entropy(kind: str, overrides: list[str], learned: float, target: float) -> None:
    policy, batch = hand(*overrides, kind=kind)
    loss, figures = policy._alpha_loss(batch)
    assert figures["alpha"].item() == pytest.approx(0.5)
    assert loss.item() == pytest.approx(-learned * (-3.0 + target))
    policy._optimizers["alpha"].step(policy._alpha_loss, batch)  # the entropy is 3, above its target
    assert policy._alpha().item() < 0.5


def test_alpha_that_is_learned_as_itself_does_not_fall_below_zero() -> None:
    keys = ("learn.log_space=False", "learn.alpha=0.2", "learn.learning_rate_alpha=0.1", "learn.target_entropy=-100.0")
    policy = make_qac("sac", *keys)
    for _ in range(5):  # the entropy is above its target: each of Adam's first steps is about 0.1
        policy.learn(make_batch(8))
    assert policy._alpha.learned.item() == 0.0


@pytest.mark.parametrize("kind", ["sac", "cql"])
def test_alpha_stays_where_it_is_if_it_is_not_to_be_learned(kind: str) -> None:
    policy = make_qac(kind, "learn.auto_alpha=False")
    output = policy.learn(make_batch(8))
    assert "alpha_loss" not in output
    assert policy._alpha().item() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("kind", "small"), [("sac", {"actor"}), ("cql", {"actor", "critic"}), ("iql", {"actor", "critic", "value"})]
)
def test_new_networks_begin_near_0_as_in_di_engine_and_given_ones_are_left_alone(kind: str, small: set[str]) -> None:
    policy = make_qac(kind, "learn.init_w=0.01")
    for name, network in policy.model.named_children():
        for head in getattr(network, "heads", [network]):
            weight = [module.weight for module in head.modules() if isinstance(module, torch.nn.Linear)][-1]
            # torch begins with weights of at most 1 / sqrt(16); sac's actor has mu and log sigma of two dimensions
            assert 0.003 < weight.abs().max() <= (0.01 if name in small else 0.25)
            assert (weight.abs().max() <= 0.01) == (name in small)
    model = copy.deepcopy(policy.model)
    again = make_qac(kind, "learn.init_w=1.0", model=model).model.actor
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), policy.model.actor.parameters(), strict=True))
