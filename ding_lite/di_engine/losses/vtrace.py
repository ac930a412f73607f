"""DI-engine's losses of IMPALA and ACER; the shapes are those of `rl_utils/vtrace.py`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.di_engine.losses.ppo import ppo_loss
from ding_lite.rl_utils.common import check_same_shape, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, log_prob_entropy
from ding_lite.rl_utils.vtrace import vtrace_advantage, vtrace_nstep_return


class vtrace_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `vtrace_error`. The gradient flows through `target_output` and `value`.

    Attributes:
        target_output: logit of the learning policy, pi.
        behaviour_output: logit of the policy that acted, mu.
        action: actions that it chose.
        value: `[T+1, B]`, V(s_t) of the learning critic.
        reward: `[T, B]`.
        weight: `[T, B]` or `[B]`, importance weights; None: all are 1.
        next_value: `[T, B]`, V of the true next states; None: value[1:], correct if no trajectory is truncated.
        done: `[T, B]`, true if the next state is terminal. None: false everywhere.
        traj_flag: `[T, B]`, true at the last step of a trajectory, terminated or truncated. None: the same as `done`.
    """

    target_output: Logit
    behaviour_output: Logit
    action: Action
    value: Tensor
    reward: Tensor
    weight: Tensor | None = None
    next_value: Tensor | None = None
    done: Tensor | None = None
    traj_flag: Tensor | None = None


vtrace_loss = ppo_loss


def vtrace_error(
    data: vtrace_data,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    rho_clip_ratio: float = 1.0,
    c_clip_ratio: float = 1.0,
    rho_pg_clip_ratio: float = 1.0,
) -> vtrace_loss:
    """Return the losses of policy and value, and the mean entropy (section 4.2 of the paper).

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (v - V)^2), entropy_loss = mean(w H(pi))

    The advantages A come from `vtrace_advantage`, the targets v from `vtrace_nstep_return`.

    `rho_clip_ratio` is rho_bar, which determines the policy whose value V converges to, `c_clip_ratio` c_bar, which
    determines the speed of convergence, and `rho_pg_clip_ratio` rho_bar of the policy gradient.
    """
    target_output, behaviour_output, action, value, reward, weight, next_value, done, traj_flag = data
    logp, entropy = log_prob_entropy(target_output, action)
    check_same_shape(log_prob=logp, reward=reward, weight=weight if weight is not None and weight.ndim > 1 else None)
    with torch.no_grad():
        ratio = (logp - log_prob(behaviour_output, action)).exp()
        rho, c, rho_pg = (ratio.clamp(max=limit) for limit in (rho_clip_ratio, c_clip_ratio, rho_pg_clip_ratio))
        cuts = dict(next_value=next_value, done=done, traj_flag=traj_flag)
        return_ = vtrace_nstep_return(rho, c, reward, bootstrap_values=value, gamma=gamma, lambda_=lambda_, **cuts)
        last_value = (value if next_value is None else next_value)[-1:]
        next_return = torch.cat([return_[1:], last_value])
        adv = vtrace_advantage(rho_pg, reward, next_return, bootstrap_values=value[:-1], gamma=gamma, **cuts)
    return vtrace_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value[:-1]).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )


EPS = 1e-8  # keeps c / rho finite


def acer_policy_error(
    q_values: Tensor,
    q_retraces: Tensor,
    v_pred: Tensor,
    target_logit: Tensor,
    actions: Tensor,
    ratio: Tensor,
    c_clip_ratio: float = 10.0,
) -> tuple[Tensor, Tensor]:
    """Return the two terms of the policy's objective, which is to be maximised (eq. 7 of the paper).

    min(c, rho(a_t)) (Qret_t - V_t) log pi(a_t)
    sum_a max(0, 1 - c / rho(a)) pi(a) (Q(s_t, a) - V_t) log pi(a)

    The first is off-policy policy gradient with truncated weights; the second corrects its bias with the critic's own
    values. The gradient flows only through log pi.

    Args:
        q_values: `[T, B, A]`, Q(s_t, .).
        q_retraces: `[T, B, 1]`, Qret_t, see `compute_q_retraces`.
        v_pred: `[T, B, 1]`, V(s_t).
        target_logit: `[T, B, A]`, log pi(. | s_t) of the learning policy, normalised.
        actions: `[T, B]`, integers.
        ratio: `[T, B, A]`, rho = pi(. | s_t) / mu(. | s_t).
        c_clip_ratio: c, the largest weight.

    Returns:
        The first and the second term, both `[T, B, 1]`.
    """
    check_same_shape(q_values=q_values, target_logit=target_logit, ratio=ratio)
    check_same_shape(q_retraces=q_retraces, v_pred=v_pred, actions=actions.unsqueeze(-1))
    q_values, v_pred, ratio = q_values.detach(), v_pred.detach(), ratio.detach()
    index = actions.unsqueeze(-1)
    weight = ratio.gather(-1, index).clamp(max=c_clip_ratio) * (q_retraces.detach() - v_pred)
    correction = (1.0 - c_clip_ratio / (ratio + EPS)).clamp(min=0.0) * target_logit.detach().exp() * (q_values - v_pred)
    return weight * target_logit.gather(-1, index), (correction * target_logit).sum(-1, keepdim=True)


def acer_value_error(q_values: Tensor, q_retraces: Tensor, actions: Tensor) -> Tensor:
    """Return the critic's errors (Qret_t - Q(s_t, a_t))^2 / 2, `[T, B, 1]`.

    Args:
        q_values: `[T, B, A]`, Q(s_t, .); the gradient flows through it.
        q_retraces: `[T, B, 1]`, the targets Qret_t.
        actions: `[T, B]`, integers.
    """
    check_same_shape(q_retraces=q_retraces, actions=actions.unsqueeze(-1))
    return 0.5 * (q_retraces.detach() - q_values.gather(-1, actions.unsqueeze(-1))).square()
