"""SQN's losses by hand on two tables of values, its temperature, exploration, state and keys."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import SQNPolicy
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import OBS, last_gradient, make_cfg, make_policy, parameter_hash, same, target_of

LOG2, LOG3, LOG4 = math.log(2), math.log(3), math.log(4)


class TwinTable(nn.Module):
    """Two tables of values written down, `[2, S, A]`, for one-hot observations."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        q_CBA = obs @ self.q
        return {"q_value": q_CBA, "logit": q_CBA[0]}


ONLINE = [[[1.0, 2.0], [3.0, 4.0]], [[0.0, -1.0], [1.0, 0.0]]]
# The smaller targets are 0 and 0 in state 0, 0 and log 3 in state 1. At temperature 1 the policies are 1/2, 1/2 and
# 1/4, 3/4, of entropies log 2 and log 4 - 3/4 log 3, and the soft value of state 1 is log 4.
TARGET = [[[0.0, 7.0], [0.0, 5.0]], [[1.0, 0.0], [2.0, LOG3]]]
ENTROPIES = [LOG4 - 0.75 * LOG3, LOG2]
# From state 0 by action 1 to state 1: y = 1 + 0.9 log 4 against 2 and -1. From state 1 by action 0, which ended: -1
# against 3 and 1.
ERRORS = [[1 + 0.9 * LOG4 - 2, -4.0], [1 + 0.9 * LOG4 + 1, -2.0]]


def table_policy(*overrides: str) -> SQNPolicy:
    keys = ("learn.alpha=1.0", "discount_factor=0.9", *overrides)
    policy: Any = make_policy(*keys, model=TwinTable(ONLINE), kind="sqn")
    target_of(policy)["q"].copy_(torch.tensor(TARGET))
    assert isinstance(policy, SQNPolicy)
    return policy


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    return {
        "obs": torch.eye(2),
        "next_obs": torch.eye(2).flip(0),
        "action": torch.tensor([1, 0]),
        "reward": torch.tensor([1.0, -1.0]),
        "done": torch.tensor([False, True]),
        "value_gamma": torch.tensor([0.9, 0.9]),
        **more,
    }


def loss_of(weights: tuple[float, float]) -> float:
    return sum(w * error**2 / 2 for errors in ERRORS for w, error in zip(weights, errors, strict=True))


def test_q_loss_by_hand() -> None:
    loss, output = table_policy()._q_loss(table_batch())
    assert loss.item() == pytest.approx(loss_of((1.0, 1.0)), rel=1e-5)
    priorities = [sum(abs(errors[sample]) for errors in ERRORS) / 2 for sample in range(2)]
    assert output["priority"].tolist() == pytest.approx(priorities, rel=1e-5)
    assert output["entropy"].tolist() == pytest.approx(ENTROPIES, rel=1e-5)
    assert output["soft_value"].tolist() == pytest.approx([LOG4, LOG2], rel=1e-5)
    assert not any(value.requires_grad for value in output.values())


def test_a_step_moves_both_networks_by_their_own_errors() -> None:
    policy = table_policy("learn.target_theta=1.0")
    output = policy.learn(table_batch())
    expected = torch.tensor([[[0, -ERRORS[0][0]], [4.0, 0]], [[0, -ERRORS[1][0]], [2.0, 0]]])
    torch.testing.assert_close(last_gradient(policy), expected.flatten())
    assert same(list(target_of(policy).values()), list(policy.model.parameters()))
    assert output["q_loss"].item() == pytest.approx(loss_of((1.0, 1.0)), rel=1e-5)
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)


@pytest.mark.parametrize(("target", "sign"), [(0.2, -1), (0.65, 1)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(target: float, sign: int) -> None:
    policy = table_policy(f"learn.target_entropy={target}", "learn.learning_rate_alpha=0.01")
    output = policy.learn(table_batch())
    gap = sum(ENTROPIES) / 2 - target  # log alpha times this is the loss; the mean entropy is 0.63
    assert output["alpha_grad_norm"].item() == pytest.approx(abs(gap), rel=1e-4)
    assert output["alpha"].item() == pytest.approx(1.0)
    # Adam's first step is the learning rate against the gradient's sign
    assert policy._alpha().item() == pytest.approx(math.exp(sign * 0.01), rel=1e-4)
    fixed = table_policy("learn.learning_rate_alpha=0.0")
    fixed.learn(table_batch())
    assert fixed._alpha().item() == pytest.approx(1.0)


def test_it_collects_by_the_softmax_at_the_learned_temperature() -> None:
    torch.manual_seed(0)
    policy, obs = table_policy("learn.alpha=0.5"), torch.eye(2)[:1].expand(20_000, 2)
    with torch.no_grad():
        next(policy.model.parameters())[0, 0] = torch.tensor([0.0, LOG3 / 2])  # 1/4 and 3/4 at temperature 1/2
    for eps, expected in ((0.0, 0.75), (0.6, 0.4 * 0.75 + 0.6 * 0.5)):
        action_N = policy.act(obs, eps=eps)["action"]
        assert action_N.double().mean().item() == pytest.approx(expected, abs=0.015)  # standard deviation 0.0035
    assert policy.act(obs[:3], explore=False)["action"].tolist() == [1, 1, 1]
    assert policy.begin_collect(0) == {"eps": 1.0}
    assert policy.begin_collect(10**6)["eps"] == pytest.approx(0.05)


def test_without_learn_mode_it_acts_at_the_initial_temperature() -> None:
    policy = SQNPolicy(make_cfg("learn.alpha=0.3", kind="sqn"), enable_field=("collect", "eval"))
    assert policy.act(torch.randn(4, OBS).numpy(), eps=0.0)["action"].shape == (4,)
    assert policy._alpha().item() == pytest.approx(0.3)


@pytest.mark.parametrize("fields", [("collect", "eval"), ("eval",)])
def test_a_policy_that_only_acts_takes_the_learned_temperature_along(fields: tuple[str, ...]) -> None:
    learned, cfg = table_policy(), make_cfg("learn.alpha=1.0", model_given=True, kind="sqn")
    with torch.no_grad():
        next(learned.model.parameters())[0, 0] = torch.tensor([0.0, LOG3 / 2])  # 1/4 and 3/4 at temperature 1/2
        learned._alpha.learned.fill_(math.log(0.5))
    acting = SQNPolicy(cfg, TwinTable(ONLINE), fields)
    acting.load_to_act(learned.state_dict())
    assert parameter_hash(acting.model) == parameter_hash(learned.model)
    if "collect" in fields:
        torch.manual_seed(0)
        action_N = acting.act(torch.eye(2)[:1].expand(20_000, 2), eps=0.0)["action"]
        # The standard deviation of the mean is 0.003. At the initial temperature the share would be 0.63.
        assert action_N.float().mean().item() == pytest.approx(0.75, abs=0.015)


def test_an_entropy_that_no_policy_has_is_refused() -> None:
    cfg = make_cfg("learn.target_entropy=1.2", kind="sqn")
    with pytest.raises(ConfigError, match=r"target_entropy=1.2 cannot be reached: the entropy of 3 .* 1.099 nats"):
        SQNPolicy(cfg)
    with pytest.raises(ConfigError, match=r"policy.learn.alpha: expected a number above 0"):
        make_cfg("learn.alpha=0.0", kind="sqn")
