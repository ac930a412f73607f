from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.rl_utils import (
    calculate_kl_div,
    log_prob,
    ppo_data,
    ppo_data_continuous,
    ppo_error,
    ppo_error_continuous,
    ppo_policy_data_continuous,
    ppo_policy_error_continuous,
    sample,
)
from tests.rl_utils.test_distribution import MAKE, torchs

KINDS = ["discrete", "continuous", "hybrid"]


def random_data(kind: str) -> ppo_data:
    torch.manual_seed(0)
    new, old = MAKE[kind](1), MAKE[kind](2)
    value_new, value_old, adv, return_, weight = torch.randn(5, 3, 5).double()
    return ppo_data(new, old, sample(old), value_new, value_old, adv, return_, weight.abs())


def test_dual_clip_must_exceed_one() -> None:
    with pytest.raises(ValueError, match=r"dual_clip must be above 1, got 1\.0"):
        ppo_error(random_data("discrete"), dual_clip=1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_torch_distributions(kind: str) -> None:
    data: Any = random_data(kind)
    (logp, entropy), (logp_old, _) = (torchs(logit, data.action) for logit in (data.logit_new, data.logit_old))
    ratio, weight = (logp - logp_old).exp(), data.weight
    objective = torch.minimum(ratio * data.adv, ratio.clamp(0.7, 1.3) * data.adv)
    objective = torch.where(data.adv < 0, torch.maximum(objective, 2.0 * data.adv), objective)
    clipped = data.value_old + (data.value_new - data.value_old).clamp(-0.3, 0.3)
    error = torch.maximum((data.return_ - data.value_new) ** 2, (data.return_ - clipped) ** 2)
    (policy_loss, value_loss, entropy_loss), info = ppo_error(data, 0.3, dual_clip=2.0)
    torch.testing.assert_close(policy_loss, -(weight * objective).mean())
    torch.testing.assert_close(value_loss, 0.5 * (weight * error).mean())
    torch.testing.assert_close(entropy_loss, (weight * entropy).mean())
    torch.testing.assert_close(info.approx_kl, (weight * (logp_old - logp)).mean())
    torch.testing.assert_close(info.clipfrac, (weight * ((ratio < 0.7) | (ratio > 1.3))).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_with_a_pretrained_policy_stands_beside_the_losses(kind: str) -> None:
    data: Any = random_data(kind)
    pretrained = random_data(kind).logit_old
    plain, _ = ppo_error(data)
    loss: Any = ppo_error(data._replace(logit_pretrained=pretrained), kl_type="k3")[0]
    torch.testing.assert_close(tuple(loss), tuple(plain))  # three losses, as without it
    log_ratio = log_prob(data.logit_new, data.action) - log_prob(pretrained, data.action)
    torch.testing.assert_close(loss.kl_div, calculate_kl_div(log_ratio, "k3", data.weight))
    policy = (data.logit_new, data.logit_old, data.action, data.adv, data.weight, pretrained)
    only: Any = ppo_policy_error_continuous(ppo_policy_data_continuous(*policy), kl_type="k3")[0]
    torch.testing.assert_close(only.kl_div, loss.kl_div)
    torch.testing.assert_close(ppo_error_continuous(ppo_data_continuous(*data)), ppo_error(data))
