"""Losses of the advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783).

Shapes: B samples; more leading dimensions are allowed. `distribution.py` describes logits and actions.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob_entropy


class a2c_data(NamedTuple):  # noqa: N801 (DI-engine's name, as is that below)
    """Input of `a2c_error`; the gradient flows through `logit` and `value`, the rest are constants of the batch.

    Attributes:
        logit: of the policy that learns.
        action: taken at t.
        value: `[B]`, V(s_t) of the critic that learns.
        adv: `[B]` advantages.
        return_: `[B]`, the target of V(s_t).
        weight: `[B]` importance weights, or None for ones.
    """

    logit: Logit
    action: Action
    value: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None


class a2c_loss(NamedTuple):  # noqa: N801
    """Scalars; the caller adds the first two and subtracts `entropy_loss`, the mean entropy, each times its weight."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


def a2c_error(data: a2c_data) -> a2c_loss:
    """Return -mean(w A log pi(a)), mean(w (R - V)^2) and mean(w entropy).

    Raises:
        ValueError: shapes differ.
    """
    logit, action, value, adv, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, value=value, adv=adv, return_=return_, weight=weight)
    return a2c_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )
