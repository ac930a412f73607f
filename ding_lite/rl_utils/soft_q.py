"""Values and exploration of soft Q-learning, whose policy is pi(. | s) = softmax(Q(s, .) / tau) instead of the argmax.

Its soft value is V(s) = sum_a pi(a | s) (Q(s, a) - tau log pi(a | s)) = tau log sum_a exp(Q(s, a) / tau).

The package's docstring explains the arguments that the functions have in common.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape
from ding_lite.rl_utils.distribution import entropy

LOWEST_LOG_POLICY = -1.0  # l_0 of Munchausen DQN


def soft_value(q: Tensor, tau: float | Tensor) -> Tensor:
    """Return V(s) = tau log sum_a exp(Q(s, a) / tau), `[...]`, for values `[..., A]` and a temperature tau above 0."""
    return tau * torch.logsumexp(q / tau, dim=-1)


@torch.no_grad()
def action_gap(q_BA: Tensor) -> Tensor:
    """Return the mean over the batch of the difference between the two largest values, a scalar; 0 of one action.

    An action whose value is -inf is forbidden, and does not count.
    """
    largest_BK = q_BA.topk(min(2, q_BA.shape[1]), dim=1).values
    return (largest_BK[:, 0] - largest_BK[:, -1]).nan_to_num(posinf=0.0).mean()


def epsilon_softmax(logit_NA: Tensor, epsilon: float, temperature: float | Tensor = 1.0) -> Tensor:
    """Return a sample of softmax(Q / temperature), or with probability epsilon a uniformly random action, by row.

    `logit_NA` are the action values Q. An action whose value is -inf is forbidden, and never chosen.
    """
    probability_NA = torch.softmax(logit_NA / temperature, dim=-1)
    allowed_NA = ~torch.isneginf(logit_NA)
    share_N1 = epsilon / allowed_NA.sum(-1, keepdim=True).double()
    mixed_NA = (1.0 - epsilon) * probability_NA + share_N1.to(probability_NA.dtype) * allowed_NA
    return torch.multinomial(mixed_NA, 1).squeeze(-1)


def soft_policy_value(q: Tensor, logit: Tensor, alpha: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the soft value of states, with an exact expectation over the actions.

    V(s) = sum_a pi(a | s) (Q(s, a) - alpha log pi(a | s)) = sum_a pi(a | s) Q(s, a) + alpha H(pi(. | s))

    Source: Christodoulou 2019, arXiv:1910.07207, eq. 10.

    Returns V and the entropy H in nats, both `[...]`, of `q` and the logit of pi, both `[..., A]`.
    """
    check_same_shape(q=q, logit=logit)
    entropy_B = entropy(logit)
    return (logit.softmax(-1) * q).sum(-1) + alpha * entropy_B, entropy_B
