"""V-trace: off-policy corrected returns and losses (Espeholt et al. 2018, arXiv:1802.01561).

Shapes: T steps of a sequence, B sequences. `distribution.py` describes logits and actions; their leading dimensions are
`[T, B]`. A sequence may contain ends of trajectories. As in `gae.py`, `done` cuts the bootstrap, `traj_flag` the sum of
corrections. At a cut, v_{t+1} is V of the true next state, not of the first state of the next trajectory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum, weighted_mean
from ding_lite.rl_utils.distribution import Action, Logit, log_prob, log_prob_entropy


class vtrace_data(NamedTuple):  # noqa: N801 (DI-engine's name, like the one below)
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


class vtrace_loss(NamedTuple):  # noqa: N801
    """Scalar losses: total = policy_loss + value_weight value_loss - entropy_weight entropy_loss.

    Attributes:
        policy_loss: the loss of the policy.
        value_loss: the loss of the value.
        entropy_loss: the mean entropy of the policy, in nats.
    """

    policy_loss: Tensor
    value_loss: Tensor
    entropy_loss: Tensor


@torch.no_grad()
def vtrace_nstep_return(
    clipped_rhos: Tensor,
    clipped_cs: Tensor,
    reward: Tensor,
    bootstrap_values: Tensor,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    next_value: Tensor | None = None,
    done: Tensor | None = None,
    traj_flag: Tensor | None = None,
) -> Tensor:
    """Return the targets v_t of the value (remark 1 of the paper), `[T, B]`, without gradient.

    v_t = V(s_t) + delta_t + gamma lambda c_t (1 - traj_flag_t) (v_{t+1} - V(s_{t+1}))
    delta_t = rho_t (r_t + gamma (1 - done_t) V(s_{t+1}) - V(s_t))

    Args:
        clipped_rhos: `[T, B]`, min(rho_bar, pi(a) / mu(a)).
        clipped_cs: `[T, B]`, min(c_bar, pi(a) / mu(a)), not multiplied by lambda.
        reward: `[T, B]`.
        bootstrap_values: `[T+1, B]`, V(s_t).
        gamma: discount per env step.
        lambda_: 0 uses the temporal difference of one step, 1 those of the whole sequence.
        next_value: see `vtrace_data`.
        done: see `vtrace_data`.
        traj_flag: see `vtrace_data`.

    Raises:
        ValueError: shapes differ, or traj_flag comes without next_value.
    """
    value = bootstrap_values[:-1]
    check_same_shape(
        reward=reward, value=value, rhos=clipped_rhos, cs=clipped_cs, next_value=next_value, done=done, flag=traj_flag
    )
    _check_cut(next_value, traj_flag)
    target = bootstrap_values[1:] if next_value is None else next_value
    factor = gamma * lambda_ * clipped_cs
    cut = done if traj_flag is None else traj_flag
    if cut is not None:
        factor.masked_fill_(cut.bool(), 0.0)
    delta = clipped_rhos * (reward + gamma * _terminal_zero(target, done) - value)
    return value + discounted_sum(delta, factor)


@torch.no_grad()
def vtrace_advantage(
    clipped_pg_rhos: Tensor,
    reward: Tensor,
    return_: Tensor,
    bootstrap_values: Tensor,
    gamma: float,
    next_value: Tensor | None = None,
    done: Tensor | None = None,
    traj_flag: Tensor | None = None,
) -> Tensor:
    """Return the advantages rho_t (r_t + gamma (1 - done_t) v_{t+1} - V(s_t)), `[T, B]`, without gradient.

    Args:
        clipped_pg_rhos: `[T, B]`, min(rho_bar_pg, pi(a) / mu(a)).
        reward: `[T, B]`.
        return_: `[T, B]`, v_{t+1}: rows 1 to T - 1 of `vtrace_nstep_return`, then V of the state after the last step.
        bootstrap_values: `[T, B]`, V(s_t).
        gamma: discount per env step.
        next_value: see `vtrace_data`; it replaces `return_` where traj_flag is set.
        done: see `vtrace_data`.
        traj_flag: see `vtrace_data`.

    Raises:
        ValueError: shapes differ, or traj_flag comes without next_value.
    """
    check_same_shape(
        reward=reward, return_=return_, value=bootstrap_values, rhos=clipped_pg_rhos,
        next_value=next_value, done=done, traj_flag=traj_flag,
    )  # fmt: skip
    _check_cut(next_value, traj_flag)
    if next_value is not None and traj_flag is not None:
        return_ = torch.where(traj_flag.bool(), next_value, return_)
    return clipped_pg_rhos * (reward + gamma * _terminal_zero(return_, done) - bootstrap_values)


def vtrace_error(
    data: vtrace_data,
    gamma: float = 0.99,
    lambda_: float = 0.95,
    rho_clip_ratio: float = 1.0,
    c_clip_ratio: float = 1.0,
    rho_pg_clip_ratio: float = 1.0,
) -> tuple[vtrace_loss, Tensor]:
    """Return the losses of policy and value, and the mean entropy (section 4.2 of the paper).

    policy_loss = -mean(w A log pi(a)), value_loss = mean(w (v - V)^2), entropy_loss = mean(w H(pi))

    The advantages A come from `vtrace_advantage`, the targets v from `vtrace_nstep_return`.

    Args:
        data: see `vtrace_data`.
        gamma: discount per env step.
        lambda_: see `vtrace_nstep_return`.
        rho_clip_ratio: rho_bar, which determines the policy whose value V converges to.
        c_clip_ratio: c_bar, which determines the speed of convergence.
        rho_pg_clip_ratio: rho_bar of the policy gradient.

    Returns:
        The losses, and the targets v `[T, B]`, detached.

    Raises:
        ValueError: shapes differ, or traj_flag comes without next_value.
    """
    target_output, behaviour_output, action, value, reward, weight, next_value, done, traj_flag = data
    logp, entropy = log_prob_entropy(target_output, action)
    check_same_shape(log_prob=logp, reward=reward, weight=weight if weight is not None and weight.ndim > 1 else None)
    with torch.no_grad():
        ratio = (logp - log_prob(behaviour_output, action)).exp()
        rho, c, rho_pg = (ratio.clamp(max=limit) for limit in (rho_clip_ratio, c_clip_ratio, rho_pg_clip_ratio))
        return_ = vtrace_nstep_return(rho, c, reward, value, gamma, lambda_, next_value, done, traj_flag)
        last_value = (value if next_value is None else next_value)[-1:]
        next_return = torch.cat([return_[1:], last_value])
        adv = vtrace_advantage(rho_pg, reward, next_return, value[:-1], gamma, next_value, done, traj_flag)
    loss = vtrace_loss(
        policy_loss=-weighted_mean(logp * adv, weight),
        value_loss=weighted_mean((return_ - value[:-1]).square(), weight),
        entropy_loss=weighted_mean(entropy, weight),
    )
    return loss, return_


def _check_cut(next_value: Tensor | None, traj_flag: Tensor | None) -> None:
    """Raise ValueError if there are cuts, but no values of the true next states."""
    if traj_flag is not None and next_value is None:
        raise ValueError(
            "traj_flag needs next_value: after a truncated trajectory, value[1:] is the value of another trajectory"
        )


def _terminal_zero(next_value: Tensor, done: Tensor | None) -> Tensor:
    """Return the next values with zeros where the next state is terminal."""
    return next_value if done is None else next_value.masked_fill(done.bool(), 0.0)
