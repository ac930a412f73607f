"""SQN's temperature: what it follows, and that policies which only act have it."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from ding_lite.policy import SQNPolicy
from ding_lite.policy.checkpointed import load_to_act
from tests.policy.helpers import make_cfg, parameter_hash
from tests.policy.value.test_losses import table_batch, table_policy

LOG2, LOG3, LOG4 = math.log(2), math.log(3), math.log(4)
# Of the policies by the smaller targets, see tests/policy/value/test_losses.py.
ENTROPIES = [LOG4 - 0.75 * LOG3, LOG2]


@pytest.mark.parametrize(("target", "sign"), [(0.2, -1), (0.65, 1)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(target: float, sign: int) -> None:
    policy = table_policy("sqn", f"learn.target_entropy={target}", "learn.learning_rate_alpha=0.01")
    output = policy.learn(table_batch("sqn"))
    gap = sum(ENTROPIES) / 2 - target  # log alpha times this is the loss; the mean entropy is 0.63
    assert output["alpha_grad_norm"].item() == pytest.approx(abs(gap), rel=1e-4)
    assert output["alpha"].item() == pytest.approx(1.0)
    # Adam's first step is the learning rate against the gradient's sign
    assert policy._alpha().item() == pytest.approx(math.exp(sign * 0.01), rel=1e-4)
    fixed = table_policy("sqn", "learn.learning_rate_alpha=0.0")
    fixed.learn(table_batch("sqn"))
    assert fixed._alpha().item() == pytest.approx(1.0)


@pytest.mark.parametrize("fields", [("collect", "eval"), ("eval",)])
def test_a_policy_that_only_acts_takes_the_learned_temperature_along(fields: tuple[str, ...]) -> None:
    learned, cfg = table_policy("sqn"), make_cfg("learn.alpha=1.0", model_given=True, kind="sqn")
    with torch.no_grad():
        learned.model.q[0, 0] = torch.tensor([0.0, LOG3 / 2])  # 1/4 and 3/4 at temperature 1/2
        learned._alpha.learned.fill_(math.log(0.5))
    acting = SQNPolicy(cfg, copy.deepcopy(table_policy("sqn").model), fields)
    load_to_act(acting, learned.state_dict())
    assert parameter_hash(acting.model) == parameter_hash(learned.model)
    if "collect" in fields:
        torch.manual_seed(0)
        action_N = acting.act(torch.eye(2)[:1].expand(20_000, 2), eps=0.0)["action"]
        # The standard deviation of the mean is 0.003. At the initial temperature the share would be 0.63.
        assert action_N.float().mean().item() == pytest.approx(0.75, abs=0.015)
