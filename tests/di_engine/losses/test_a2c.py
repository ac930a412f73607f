"""The losses of REINFORCE and of the advantage actor-critic, against torch's distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.rl_utils import a2c_data, a2c_error, a2c_error_continuous, pg_data, pg_error, pg_error_continuous
from tests.rl_utils.test_distribution import torchs


@pytest.mark.parametrize("continuous", [False, True])
def test_agrees_with_torch_distributions(continuous: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    mu, sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    value, adv, return_, weight = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    logit: Any = {"mu": mu, "sigma": sigma.exp()} if continuous else mu
    action = action if continuous else torch.arange(6) % 2
    logp, entropy = torchs(logit, action)
    error, of_pg = (a2c_error_continuous, pg_error_continuous) if continuous else (a2c_error, pg_error)
    policy_loss, value_loss, entropy_loss = error(a2c_data(logit, action, value, adv, return_, weight))
    torch.testing.assert_close(policy_loss, -(weight * adv * logp).mean())
    torch.testing.assert_close(value_loss, (weight * (return_ - value) ** 2).mean())
    torch.testing.assert_close(entropy_loss, (weight * entropy).mean())
    torch.testing.assert_close(tuple(of_pg(pg_data(logit, action, adv, weight))), (policy_loss, entropy_loss))
