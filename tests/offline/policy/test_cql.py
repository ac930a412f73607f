"""CQL's critics and its multiplier. tests/policy/continuous/test_sac.py has its actor and temperature."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.policy.continuous.helpers import Line, line_batch, losses, make_batch, make_qac

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def hand(*overrides: str, done: bool = False) -> Any:
    """Return a policy of Line networks and a batch whose noise is 0, of one action of each kind, uniform is -0.5."""
    policy = make_qac("cql", "learn.num_actions=1", "learn.alpha=0.5", *overrides, model=Line(normal=True))
    zero = torch.zeros(1, 1, 1)
    noise = {"now": zero, "next": zero, "uniform": zero - 0.5, "actor": zero[0]}
    known = {"log_prob": torch.tensor([-3.0]), "conservative_gap": torch.tensor([1.0, 3.0])}
    return policy, line_batch(done) | known | {"noise": noise}


def log_prob(mu: float) -> float:
    """Of tanh(mu), where mu is the mean and sigma is 2."""
    return -HALF_LOG_TWO_PI - math.log(2.0) - math.log(1 - math.tanh(mu) ** 2)


def gap(slope: float) -> float:
    """Of Q = slope * a + 0.5: the policy's actions are tanh(0.25) in s and tanh(0.2) in s', uniform -0.5, data 0.1."""
    terms = [(-0.5, math.log(0.5)), (math.tanh(0.25), log_prob(0.25)), (math.tanh(0.2), log_prob(0.2))]
    total = sum(math.exp(slope * action + 0.5 - logp) for action, logp in terms)
    return math.log(total) - (slope * 0.1 + 0.5)


@pytest.mark.parametrize(
    ("overrides", "done", "entropy", "weight"),
    [
        ([], False, 0.0, 1.0),
        (["learn.min_q_weight=5.0"], False, 0.0, 5.0),
        (["learn.with_q_entropy=True"], False, -0.5 * log_prob(0.2), 1.0),
        (["learn.with_q_entropy=True"], True, 0.0, 1.0),
    ],
)
def test_the_critics_loss_by_hand(overrides: list[str], done: bool, entropy: float, weight: float) -> None:
    policy, batch = hand(*overrides, done=done)
    loss, figures = losses(policy, batch)["critic"]
    value = 0.0 if done else math.tanh(0.2) + 0.4 + entropy  # the lesser critic's at s' = 0.4
    target = 1 + 0.5 * value
    gaps = [gap(1.0), gap(2.0)]
    assert figures["conservative_gap"].tolist() == pytest.approx(gaps)
    assert figures["td_error"].flatten().tolist() == pytest.approx([abs(target - 0.6), abs(target - 0.7)], rel=1e-5)
    assert loss.item() == pytest.approx((target - 0.6) ** 2 + (target - 0.7) ** 2 + weight * sum(gaps), rel=1e-5)


@pytest.mark.parametrize(("threshold", "grows"), [(3.0, True), (5.0, False)])
def test_the_lagrange_multiplier_grows_while_the_gap_is_too_large(threshold: float, grows: bool) -> None:
    keys = ("learn.with_lagrange=True", f"learn.lagrange_thresh={threshold}", "learn.min_q_weight=2.0")
    policy, batch = hand(*keys)
    loss, _ = losses(policy, batch)["lagrange"]
    assert loss.item() == pytest.approx(-(2.0 * 2.0 - threshold))  # the gaps' mean is 2, alpha' starts at 1
    policy._optimizers["lagrange"].step(policy._lagrange_loss, batch)
    assert (policy._lagrange().item() > 1.0) == grows


def test_the_lagrange_multiplier_weighs_the_conservative_term() -> None:
    policy, batch = hand("learn.with_lagrange=True", "learn.lagrange_thresh=1.0", "learn.min_q_weight=2.0")
    one = losses(policy, batch)["critic"][0].item()
    policy._lagrange.learned.data.fill_(math.log(3.0))
    assert losses(policy, batch)["critic"][0].item() - one == pytest.approx(2.0 * 2.0 * (gap(1.0) + gap(2.0)), rel=1e-5)


def test_uniform_actions_fill_the_range_and_others_are_normal() -> None:
    noise = make_qac("cql", "learn.num_actions=50")._draw_noise(make_batch(16))
    assert noise["uniform"].shape == (50, 16, 2)
    assert -1 <= noise["uniform"].min() < -0.95
    assert 0.95 < noise["uniform"].max() <= 1
    assert noise["now"].std().item() == pytest.approx(1.0, abs=0.05)
