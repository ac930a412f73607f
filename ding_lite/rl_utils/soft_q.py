"""Losses and exploration of soft Q-learning, whose policy is pi(. | s) = softmax(Q(s, .) / tau) instead of the argmax.

Its soft value is V(s) = sum_a pi(a | s) (Q(s, a) - tau log pi(a | s)) = tau log sum_a exp(Q(s, a) / tau).

The package's docstring explains the arguments that the functions have in common.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape, pick
from ding_lite.rl_utils.distribution import entropy
from ding_lite.rl_utils.td import Criterion, nstep_target, pick_values, q_nstep_td_data, td_error

LOWEST_LOG_POLICY = -1.0  # l_0 of Munchausen DQN


class m_q_1step_td_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `m_q_1step_td_error`.

    Attributes:
        q: `[B, A]`, Q(s, .) of the online network; the gradient flows through it.
        target_q: `[B, A]`, Q'(s, .) of the target network.
        next_q: `[B, A]`, Q'(s', .) of the target network.
        act: `[B]`, integer actions taken in s.
        reward: `[B]`, of one step.
        done: `[B]`, true where s' is terminal.
    """

    q: Tensor
    target_q: Tensor
    next_q: Tensor
    act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


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


def m_q_1step_td_error(
    data: m_q_1step_td_data,
    gamma: float,
    tau: float,
    alpha: float,
    criterion: Criterion = functional.mse_loss,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the loss of Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430, eq. 2).

    y = r + alpha max(tau log pi(a | s), -1) + gamma (1 - done) V(s')
    loss = mean(w criterion(Q(s, a), y))

    pi = softmax(Q' / tau) and V are the target network's, see the module's docstring.

    Returns:
        The loss; the TD errors y - Q(s, a) `[B]`; the mean of the action gap, by which the largest Q'(s, .) exceeds the
        second largest; and `[B]`, 1 where the log-policy was clipped, else 0. The last three are detached.
    """
    q, target_q, next_q, act, reward, done, weight = data
    check_same_shape(q=q, target_q=target_q, next_q=next_q)
    check_same_shape(act=act, reward=reward, done=done, weight=weight)
    q_B = pick(q, act)
    with torch.no_grad():
        log_policy_B = tau * pick(functional.log_softmax(target_q / tau, dim=1), act)
        value_B = soft_value(next_q, tau).masked_fill(done.bool(), 0.0)
        target_B = reward + alpha * log_policy_B.clamp(min=LOWEST_LOG_POLICY) + gamma * value_B
        clipped_B = (log_policy_B < LOWEST_LOG_POLICY).to(q.dtype)
    return *td_error(q_B, target_B, weight, criterion), action_gap(target_q), clipped_B


def q_nstep_sql_td_error(
    data: q_nstep_td_data,
    gamma: float,
    alpha: float | Tensor,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Criterion = functional.mse_loss,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of n-step soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165, eq. 5 and 7).

    y = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V(s_{t+n}),  V(s) = alpha log sum_a exp(Q'(s, a) / alpha)
    loss = mean(w criterion(Q(s_t, a_t), y))

    alpha is the temperature of the policy; `next_n_action` is not used. The other results are the TD errors
    y - Q(s_t, a_t) `[B]` and V(s_{t+n}) `[B]`, detached.
    """
    q_B, _ = pick_values(data._replace(next_n_action=data.action))
    value_B = soft_value(data.next_n_q, alpha).detach()
    target_B = nstep_target(data, value_B, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return *td_error(q_B, target_B, data.weight, criterion), value_B


def epsilon_softmax(logit_NA: Tensor, epsilon: float, temperature: float | Tensor = 1.0) -> Tensor:
    """Return a sample of softmax(Q / temperature), or with probability epsilon a uniformly random action, by row.

    An action whose value is -inf is forbidden, and never chosen.

    Args:
        logit_NA: action values Q, `[N, A]`.
        epsilon: probability of a uniformly random action, in [0, 1].
        temperature: above 0.

    Returns:
        Actions `[N]`, int64.
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

    Args:
        q: `[..., A]`, Q(s, .).
        logit: `[..., A]`, the logit of pi; an entry of -inf forbids an action.
        alpha: weight of the entropy.

    Returns:
        V and the entropy H in nats, both `[...]`.
    """
    check_same_shape(q=q, logit=logit)
    entropy_B = entropy(logit)
    return (logit.softmax(-1) * q).sum(-1) + alpha * entropy_B, entropy_B
