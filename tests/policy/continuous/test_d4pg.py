from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import QACDIST
from ding_lite.utils import ConfigError
from tests.policy.continuous.helpers import line_actor, line_batch, losses, make_qac
from tests.policy.helpers import Formula


def three_atoms(net: Any, obs: Tensor, action: Tensor) -> dict[str, Tensor]:
    """A critic whose logits at the atoms 0, 1 and 2 are 0, a and s, times a parameter of 1."""
    logit = net.scale * torch.cat([torch.zeros_like(action), action, obs], dim=-1)
    return {"logit": logit, "q_value": logit.softmax(-1) @ torch.tensor([0.0, 1.0, 2.0])}


def hand() -> Any:
    model = nn.ModuleDict({"actor": line_actor(normal=False), "critic": Formula(three_atoms, scale=1.0)})
    return make_qac("d4pg", "model.v_min=0.0", "model.v_max=2.0", "model.n_atom=3", model=model), line_batch()


def softmax(*logits: float) -> list[float]:
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def cross_entropy(target: list[float], *logits: float) -> float:
    return -sum(m * math.log(p) for m, p in zip(target, softmax(*logits), strict=True))


def test_the_critic_learns_the_projected_distribution() -> None:
    policy, batch = hand()
    loss, figures = losses(policy, batch)["critic"]
    # pi'(s') = 0.2 in s' = 0.4, r = 1, g = 1/2: the atoms move to 1, 1.5 and 2
    p = softmax(0.0, 0.2, 0.4)
    target = [0.0, p[0] + 0.5 * p[1], 0.5 * p[1] + p[2]]
    expected = cross_entropy(target, 0.0, 0.1, 0.5)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert figures["cross_entropy"].tolist() == pytest.approx([expected], rel=1e-5)
    entropy = -sum(m * math.log(m) for m in target[1:])
    assert figures["priority"].tolist() == pytest.approx([expected - entropy], rel=1e-5)
    mean = softmax(0.0, 0.1, 0.5)
    assert figures["q_value"].item() == pytest.approx(mean[1] + 2 * mean[2], rel=1e-5)


def test_the_actor_climbs_the_mean_of_the_distribution() -> None:
    policy, batch = hand()
    loss, _ = losses(policy, batch)["actor"]
    p = softmax(0.0, 0.25, 0.5)  # pi(s) = 0.25
    mean = p[1] + 2 * p[2]
    assert loss.item() == pytest.approx(-mean, rel=1e-5)
    loss.backward()
    # d mean / da = p_1 (1 - mean), d pi / d slope = 0.5
    assert policy.model.actor.slope.grad.item() == pytest.approx(-0.5 * p[1] * (1 - mean), rel=1e-4)


def test_a_model_of_the_users_needs_no_keys_but_must_have_the_atoms_of_the_config() -> None:
    assert make_qac("d4pg", model=QACDIST(3, 2))._support == (-10.0, 10.0)
    with pytest.raises(ConfigError, match=r"v_min=-10.0, but the model has v_min=-1600.0"):
        make_qac("d4pg", model=QACDIST(3, 2, v_min=-1600.0, v_max=0.0))
    keys = ("model.v_min=-1600.0", "model.v_max=0.0")
    assert make_qac("d4pg", *keys, model=QACDIST(3, 2, v_min=-1600.0, v_max=0.0))._support == (-1600.0, 0.0)
