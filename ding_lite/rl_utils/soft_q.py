"""Losses and exploration of soft Q-learning, whose policy is pi(. | s) = softmax(Q(s, .) / tau) instead of the argmax.

Its soft value is V(s) = sum_a pi(a | s) (Q(s, a) - tau log pi(a | s)) = tau log sum_a exp(Q(s, a) / tau).

Shapes: T steps of an n-step return, B samples, N environments, A discrete actions. The suffix of a name gives its
dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import check_same_shape, pick, weighted_mean
from ding_lite.rl_utils.distribution import entropy
from ding_lite.rl_utils.td import criterion_values, q_nstep_td_data, return_and_discount

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
        weight: `[B]`, importance weights; None: all are 1.
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
    """Return the mean over the batch of the difference between the two largest values, a scalar; 0 of one action."""
    largest_BK = q_BA.topk(min(2, q_BA.shape[1]), dim=1).values
    return (largest_BK[:, 0] - largest_BK[:, -1]).mean()


def m_q_1step_td_error(
    data: m_q_1step_td_data,
    gamma: float,
    tau: float,
    alpha: float,
    criterion: Callable[..., Tensor] = functional.mse_loss,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the loss of Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430, eq. 2).

    y = r + alpha max(tau log pi(a | s), -1) + gamma (1 - done) V(s')
    loss = mean(w criterion(Q(s, a), y))

    pi = softmax(Q' / tau) and V are the target network's, see the module's docstring.

    Args:
        data: see `m_q_1step_td_data`.
        gamma: discount per env step.
        tau: temperature of the policy.
        alpha: weight of the log-policy in the reward.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss; the TD errors y - Q(s, a) `[B]`; the mean of the action gap, by which the largest Q'(s, .)
        exceeds the second largest; and `[B]`, 1 where the log-policy was clipped, else 0. The last three are detached.

    Raises:
        ValueError: the shapes of the values, or those of the other fields, differ.
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
    loss = weighted_mean(criterion_values(criterion, q_B, target_B), weight)
    return loss, target_B - q_B.detach(), action_gap(target_q), clipped_B


def q_nstep_sql_td_error(
    data: q_nstep_td_data,
    gamma: float,
    alpha: float | Tensor,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Callable[..., Tensor] = functional.mse_loss,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of n-step soft Q-learning (Haarnoja et al. 2017, arXiv:1702.08165, eq. 5 and 7).

    y = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) V(s_{t+n}),  V(s) = alpha log sum_a exp(Q'(s, a) / alpha)
    loss = mean(w criterion(Q(s_t, a_t), y))

    Args:
        data: see `q_nstep_td_data`; `next_n_action` is not used, because V includes all actions.
        gamma: discount per env step.
        alpha: the temperature of the policy softmax(Q / alpha).
        nstep: n, used if `value_gamma` is None.
        cum_reward: whether `reward` is already summed over the n steps.
        value_gamma: `[B]`, see `q_nstep_td_error`.
        criterion: a function or a module, see `criterion_values`.

    Returns:
        The scalar loss; the TD errors y - Q(s_t, a_t) `[B]`; and V(s_{t+n}) `[B]`. The last two are detached.

    Raises:
        ValueError: q and next_n_q are not both `[B, A]`, or the shape of reward contradicts `cum_reward`.
    """
    q, next_n_q, action, _, reward, done, weight = data
    if q.ndim != 2 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = return_and_discount(
        reward, gamma, nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma
    )
    q_B = pick(q, action)
    with torch.no_grad():
        value_B = soft_value(next_n_q, alpha)
        target_B = return_B + discount_B * value_B.masked_fill(done.bool(), 0.0)
    loss = weighted_mean(criterion_values(criterion, q_B, target_B), weight)
    return loss, target_B - q_B.detach(), value_B


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

    Raises:
        ValueError: q and logit differ in shape.
    """
    check_same_shape(q=q, logit=logit)
    entropy_B = entropy(logit)
    return (logit.softmax(-1) * q).sum(-1) + alpha * entropy_B, entropy_B
