"""Loss of the policy gradient, REINFORCE (Williams 1992, doi:10.1007/BF00992696).

Shapes: B samples; more leading dimensions are allowed. `distribution.py` describes logits and actions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
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


def first_episodes(final_index_K: Tensor, n_step: int, num_envs: int) -> Tensor:
    """Return a mask of the steps of each environment's first m episodes.

    m is the smallest number of ended episodes of any environment, so environments with short episodes do not count more
    than those with long ones. All environments must start a new episode in the first row of the block.

    Args:
        final_index_K: places `t * N + n` of the last steps of episodes, int64.
        n_step: T.
        num_envs: N.

    Returns:
        `[T, N]`, bool.
    """
    end_TN = torch.zeros(n_step * num_envs, dtype=torch.int64, device=final_index_K.device)
    end_TN = end_TN.index_fill(0, final_index_K, 1).view(n_step, num_envs)
    ended_before_TN = end_TN.cumsum(0) - end_TN
    return ended_before_TN < end_TN.sum(0).min()
