from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import distributions, tensor

from ding_lite.rl_utils import a2c_data, a2c_error, a2c_error_continuous

# Probabilities 3/4, 1/4 and 1/2, 1/2. The second action of the first, the first of the second.
LOGIT = tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
POLICY = [2.0 * math.log(4.0), -1.0 * math.log(2.0)]  # -A log p
VALUE = [2.25, 1.0]  # (3 - 1.5)^2, (0 - 1)^2
ENTROPY = [math.log(4.0) - 0.75 * math.log(3.0), math.log(2.0)]


def data(**changes: Any) -> a2c_data:
    base = a2c_data(LOGIT, tensor([1, 0]), tensor([1.5, 1.0]), tensor([2.0, -1.0]), tensor([3.0, 0.0]), None)
    return base._replace(**changes)


def continuous_data() -> a2c_data:
    generator = torch.Generator().manual_seed(0)
    mu, sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    value, adv, return_, weight = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    return a2c_data({"mu": mu, "sigma": sigma.exp()}, action, value, adv, return_, weight)


def test_by_hand() -> None:
    policy_loss, value_loss, entropy_loss = a2c_error(data())
    assert policy_loss.item() == pytest.approx(sum(POLICY) / 2)
    assert value_loss.item() == pytest.approx(sum(VALUE) / 2)
    assert entropy_loss.item() == pytest.approx(sum(ENTROPY) / 2)


def test_continuous_agrees_with_torch_distributions() -> None:
    sample: Any = continuous_data()
    normal = distributions.Independent(distributions.Normal(sample.logit["mu"], sample.logit["sigma"]), 1)
    policy_loss, value_loss, entropy_loss = a2c_error_continuous(sample)
    torch.testing.assert_close(policy_loss, -(sample.weight * sample.adv * normal.log_prob(sample.action)).mean())
    torch.testing.assert_close(value_loss, (sample.weight * (sample.return_ - sample.value) ** 2).mean())
    torch.testing.assert_close(entropy_loss, (sample.weight * normal.entropy()).mean())


def test_a_hybrid_action_is_the_sum_of_its_parts() -> None:
    parts: Any = continuous_data()
    logit = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    types = tensor([0, 1, 2, 0, 1, 2])
    both = a2c_error(
        parts._replace(
            logit={"action_type": logit, "action_args": parts.logit},
            action={"action_type": types, "action_args": parts.action},
        )
    )
    first, second = a2c_error(parts._replace(logit=logit, action=types)), a2c_error(parts)
    torch.testing.assert_close(both.policy_loss, first.policy_loss + second.policy_loss)
    torch.testing.assert_close(both.entropy_loss, first.entropy_loss + second.entropy_loss)
