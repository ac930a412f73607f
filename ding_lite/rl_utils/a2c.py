"""Losses of the advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783).

Shapes: B samples; more leading dimensions are allowed. `distribution.py` describes logits and actions.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob_entropy


class a2c_data(NamedTuple):  # noqa: N801 (DI-engine's name, like the one below)
    """Input of `a2c_error`. The gradient flows through `logit` and `value`; the other fields are constants.

    Attributes:
        logit: output of the learning policy.
        action: actions taken at t.
        value: `[B]`, V(s_t) of the learning critic.
        adv: `[B]`, advantages.
        return_: `[B]`, targets of V(s_t).
        weight: `[B]`, importance weights; None: all are 1.
    """

    logit: Logit
    action: Action
    value: Tensor
    adv: Tensor
    return_: Tensor
    weight: Tensor | None = None


class a2c_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss + value_weight value_loss - entropy_weight entropy_loss.

    Attributes:
        policy_loss: the loss of the policy.
        value_loss: the loss of the value.
        entropy_loss: the mean entropy of the policy, in nats.
    """

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


def a2c_error(data: a2c_data) -> a2c_loss:
    """Return the losses of policy and value, and the mean entropy (Mnih et al. 2016, section 4 and algorithm S3).

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (R - V)^2), entropy_loss = mean(w H(pi))

    Raises:
        ValueError: the fields' shapes do not fit together.
    """
    logit, action, value, adv, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, value=value, adv=adv, return_=return_, weight=weight)
    return a2c_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )
