"""DI-engine's losses of soft Q-learning and Munchausen DQN; `rl_utils/soft_q.py` explains soft values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.di_engine.losses.td import Criterion, nstep_target, pick_values, q_nstep_td_data, td_error
from ding_lite.rl_utils.common import check_same_shape, pick
from ding_lite.rl_utils.soft_q import LOWEST_LOG_POLICY, action_gap, soft_value


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
