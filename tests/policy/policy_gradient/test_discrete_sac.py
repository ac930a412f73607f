"""Discrete SAC's losses by hand, its temperature, and exploration."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.config import compile_config
from ding_lite.policy import DiscreteSACPolicy
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.policy.helpers import Formula, make_policy
from tests.policy.value.test_losses import table_batch

LN3 = math.log(3.0)
H = math.log(4.0) - 0.75 * LN3  # the entropy of probabilities 3/4 and 1/4


LOGIT = [[LN3, 0.0], [0.0, 0.0]]  # probabilities 3/4 and 1/4 in state 0, 1/2 and 1/2 in state 1
Q = [[[1.0, 2.0], [3.0, 6.0]], [[2.0, 0.0], [5.0, 4.0]]]  # of two critics, two states and two actions


def table(net: Any, obs: Tensor, mode: str) -> dict[str, Tensor]:
    return {"logit": net.actor(obs)} if mode == "compute_actor" else {"q_value": net.critic(obs)}


def hand(*overrides: str) -> Any:
    actor, critic = Formula(lambda net, obs: obs @ net.logit, logit=LOGIT), Formula(lambda net, obs: obs @ net.q, q=Q)
    model = Formula(table, actor=actor, critic=critic)
    return make_policy("learn.alpha=0.5", *overrides, model=model, kind="discrete_sac")


# V of state 1: pi is even, the smaller values are 3 and 4: 3.5 + 0.5 log 2. y = 1 + V / 2 and -1.
# Q_c(s, a) is 2 and 3 for the first critic, 0 and 5 for the second.
Y = (1 + (3.5 + 0.5 * math.log(2.0)) / 2, -1.0)
ERRORS = [[Y[0] - 2, Y[1] - 3], [Y[0] - 0, Y[1] - 5]]


def test_the_critics_loss_by_hand() -> None:
    loss, figures = hand()._critic_loss(table_batch("discrete_sac"))
    assert loss.item() == pytest.approx(sum((a**2 + b**2) / 2 for a, b in ERRORS), rel=1e-5)
    assert figures["priority"].tolist() == pytest.approx([(abs(a) + abs(b)) / 2 for a, b in zip(*ERRORS, strict=True)])
    assert figures["q_value"].tolist() == [[2.0, 3.0], [0.0, 5.0]]


def test_the_actors_loss_and_its_gradient_by_hand() -> None:
    policy = hand()
    loss, figures = policy._actor_loss(table_batch("discrete_sac"))
    assert loss.item() == pytest.approx(-(0.75 + 0.5 * H + 3.5 + 0.5 * math.log(2.0)) / 2, rel=1e-5)
    assert figures["entropy"].tolist() == pytest.approx([H, math.log(2.0)])
    loss.backward()
    assert policy.model.critic.q.grad is None or not policy.model.critic.q.grad.any()
    # dV/dlogit_a = pi_a (f_a - sum pi f), f = Q - alpha log pi
    expected = []
    for pi, q in (([0.75, 0.25], [1.0, 0.0]), ([0.5, 0.5], [3.0, 4.0])):
        f = [x - 0.5 * math.log(p) for p, x in zip(pi, q, strict=True)]
        mean = sum(p * x for p, x in zip(pi, f, strict=True))
        expected.append([-p * (x - mean) / 2 for p, x in zip(pi, f, strict=True)])
    torch.testing.assert_close(policy.model.actor.logit.grad, torch.tensor(expected))


@pytest.mark.parametrize(
    ("overrides", "target", "factor"),
    [
        ([], 0.98 * math.log(2.0), math.log(0.5)),
        (["learn.target_entropy=0.25"], 0.25, math.log(0.5)),
        (["learn.log_space=False", "learn.target_entropy=0.25"], 0.25, 0.5),
    ],
)
def test_the_loss_of_alpha_by_hand(overrides: list[str], target: float, factor: float) -> None:
    policy = hand(*overrides)
    batch = table_batch("discrete_sac") | policy._actor_loss(table_batch("discrete_sac"))[1]
    loss, figures = policy._alpha_loss(batch)
    assert loss.item() == pytest.approx(factor * ((H + math.log(2.0)) / 2 - target), rel=1e-5)
    assert figures["alpha"].item() == pytest.approx(0.5)


@pytest.mark.parametrize("learned", [True, False])
def test_alpha_is_learned_if_it_is_to_be(learned: bool) -> None:
    policy = hand(f"learn.auto_alpha={learned}")
    assert ("alpha_loss" in policy.learn(table_batch("discrete_sac"))) == learned == (policy._alpha().item() != 0.5)


def test_it_samples_by_the_policys_probabilities_and_evaluates_the_likeliest_action() -> None:
    policy, obs = hand(), torch.eye(2)[:1].repeat(8000, 1).numpy()
    torch.manual_seed(0)
    counts = Counter(policy.act(obs, eps=0.0)["action"].tolist())
    assert counts[0] == pytest.approx(6000, abs=160)  # standard deviation 39
    counts = Counter(policy.act(obs, eps=0.8)["action"].tolist())
    assert counts[0] == pytest.approx(8000 * (0.2 * 0.75 + 0.8 * 0.5), abs=180)  # standard deviation 45
    assert policy.act(obs, explore=False)["action"].unique().tolist() == [0]


def test_both_names_of_di_engine_are_known() -> None:
    assert POLICY_REGISTRY.find("sac_discrete") is POLICY_REGISTRY.find("discrete_sac") is DiscreteSACPolicy


def test_actions_need_no_scale() -> None:
    create = dict(env=dict(env_id="CartPole-v1", act_scale=False), policy=dict(type="discrete_sac"))
    assert compile_config(({}, create)).env.act_scale is False
