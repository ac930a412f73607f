"""Loss of the policy gradient, REINFORCE (Williams 1992, doi:10.1007/BF00992696).

Shapes: B samples; more leading dimensions are allowed. `distribution.py` describes logits and actions.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob_entropy


class pg_data(NamedTuple):  # noqa: N801 (DI-engine's name, like the one below)
    """Input of `pg_error`. The gradient flows through `logit`; the other fields are constants.

    Attributes:
        logit: output of the learning policy.
        action: actions taken at t.
        return_: `[B]`, discounted sums of the rewards from t on, or any other factor of log pi.
        weight: `[B]`, importance weights; None: all are 1.
    """

    logit: Logit
    action: Action
    return_: Tensor
    weight: Tensor | None = None


class pg_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss - entropy_weight entropy_loss.

    Attributes:
        policy_loss: the loss of the policy.
        entropy_loss: the mean entropy of the policy, in nats.
    """

    policy_loss: Tensor
    entropy_loss: Tensor


def pg_error(data: pg_data) -> pg_loss:
    """Return the loss of the policy, -mean(w R log pi(a)), and the mean entropy, mean(w H(pi)).

    Raises:
        ValueError: the fields' shapes do not fit together.
    """
    logit, action, return_, weight = data
    logp, entropy = log_prob_entropy(logit, action)
    check_same_shape(log_prob=logp, return_=return_, weight=weight)
    return pg_loss(-weighted_mean(logp * return_, weight), weighted_mean(entropy, weight))
