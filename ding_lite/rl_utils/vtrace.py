"""Off-policy corrections: V-trace of a state value, Retrace of Q(s, a), and the trust region of ACER.

Shapes: T steps of a sequence, B sequences, A discrete actions. `distribution.py` describes logits and actions; their
leading dimensions are `[T, B]`. A sequence may contain ends of trajectories. As in `gae`, `done` cuts the bootstrap,
`traj_flag` the sum of corrections. At a cut, v_{t+1} is V of the true next state, not of the first state of the next
trajectory. Values of Retrace and ACER keep a last dimension of 1, as in DI-engine.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum


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
        next_value: see `vtrace_data` for this and the following, all `[T, B]`.
        done: true where s_{t+1} is terminal.
        traj_flag: it needs `next_value`.
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

    `return_` is v_{t+1}: rows 1 to T - 1 of `vtrace_nstep_return`, then V of the state after the last step. Where
    `traj_flag` is set, `next_value` replaces it. `bootstrap_values` `[T, B]` are V(s_t); for others see that function.
    """
    check_same_shape(
        reward=reward, return_=return_, value=bootstrap_values, rhos=clipped_pg_rhos,
        next_value=next_value, done=done, traj_flag=traj_flag,
    )  # fmt: skip
    _check_cut(next_value, traj_flag)
    if next_value is not None and traj_flag is not None:
        return_ = torch.where(traj_flag.bool(), next_value, return_)
    return clipped_pg_rhos * (reward + gamma * _terminal_zero(return_, done) - bootstrap_values)


def _check_cut(next_value: Tensor | None, traj_flag: Tensor | None) -> None:
    """Raise ValueError if there are cuts, but no values of the true next states."""
    if traj_flag is not None and next_value is None:
        raise ValueError(
            "traj_flag needs next_value: after a truncated trajectory, the next value is that of another trajectory"
        )


def _terminal_zero(next_value: Tensor, done: Tensor | None) -> Tensor:
    """Return the next values with zeros where the next state is terminal."""
    return next_value if done is None else next_value.masked_fill(done.bool(), 0.0)


@torch.no_grad()
def compute_q_retraces(
    q_values: Tensor,
    v_pred: Tensor,
    rewards: Tensor,
    actions: Tensor,
    weights: Tensor,
    ratio: Tensor,
    gamma: float = 0.9,
    next_value: Tensor | None = None,
    traj_flag: Tensor | None = None,
) -> Tensor:
    """Return the targets Qret of Q(s_t, a_t), without gradient.

    Qret_t = r_t + gamma w_t (V(s_{t+1}) + k_t min(1, rho_{t+1}) (Qret_{t+1} - Q(s_{t+1}, a_{t+1})))

    rho_t = pi(a_t | s_t) / mu(a_t | s_t). k_t is 0 after the last step of a trajectory or of the sequence, and 1
    elsewhere. Source: Wang et al. 2017, arXiv:1611.01224, eq. 5.

    Args:
        q_values: `[T+1, B, A]`, Q(s_t, .); the last row is not used.
        v_pred: `[T+1, B, 1]`, V(s_t).
        rewards: `[T, B]`, as actions, weights and `traj_flag`.
        actions: integers.
        weights: w_t: 0 if s_{t+1} is terminal, else 1.
        ratio: `[T, B, A]`, pi(. | s_t) / mu(. | s_t).
        gamma: discount per env step.
        next_value: `[T, B, 1]`, V of the true next states; None: v_pred[1:], correct if no trajectory is truncated.
        traj_flag: true at the last step of a trajectory, terminated or truncated; None: `weights` is 0 there.

    Returns:
        `[T+1, B, 1]`: Qret, and V of the last state.
    """
    _check_cut(next_value, traj_flag)
    v_TB = (v_pred[1:] if next_value is None else next_value).squeeze(-1)
    q_TB, rho_TB = (x.gather(-1, actions.unsqueeze(-1)).squeeze(-1) for x in (q_values[:-1], ratio))
    check_same_shape(reward=rewards, value=v_TB, weight=weights, action=actions, traj_flag=traj_flag)
    discount_TB = gamma * weights
    delta_TB = rewards + torch.where(weights == 0, 0.0, discount_TB * v_TB) - q_TB
    factor_TB = discount_TB * torch.cat([rho_TB[1:], torch.zeros_like(rho_TB[:1])]).clamp(max=1.0)
    if traj_flag is not None:
        factor_TB = factor_TB.masked_fill(traj_flag.bool(), 0.0)
    return torch.cat([(q_TB + discounted_sum(delta_TB, factor_TB)).unsqueeze(-1), v_pred[-1:]])


@torch.no_grad()
def acer_trust_region_update(
    actor_gradients: list[Tensor], target_logit: Tensor, avg_logit: Tensor, trust_region_value: float
) -> list[Tensor]:
    """Return the closest gradients whose step increases the divergence from the average policy by at most a bound.

    The divergence is KL(pi_avg || pi); its gradient with respect to log pi is -pi_avg. With descent gradients g and
    bound delta, eq. 12 of the paper is

    g - max(0, (g . pi_avg - delta) / (pi_avg . pi_avg)) pi_avg

    The gradients `[T, B, A]` are those of each sample's loss, which is minimised, with respect to log pi. `avg_logit`
    is log pi_avg. The result does not depend on `target_logit`, log pi. delta is the increase per unit step.
    """
    pi_avg = avg_logit.exp()
    square = pi_avg.square().sum(-1, keepdim=True)
    changed = []
    for gradient in actor_gradients:
        check_same_shape(gradient=gradient, target_logit=target_logit, avg_logit=avg_logit)
        excess = (gradient * pi_avg).sum(-1, keepdim=True) - trust_region_value
        changed.append(gradient - (excess / square).clamp(min=0.0) * pi_avg)
    return changed
