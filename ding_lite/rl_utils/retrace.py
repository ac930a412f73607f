"""Retrace: off-policy corrected targets of Q(s, a) (Munos et al. 2016, arXiv:1606.02647).

Shapes: T steps of a sequence, B sequences, A discrete actions. Values keep a last dimension of 1, as in DI-engine. A
sequence may contain ends of trajectories, see `vtrace.py`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum


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
        rewards: `[T, B]`.
        actions: `[T, B]`, integers.
        weights: `[T, B]`, w_t: 0 if s_{t+1} is terminal, else 1.
        ratio: `[T, B, A]`, pi(. | s_t) / mu(. | s_t).
        gamma: discount per env step.
        next_value: `[T, B, 1]`, V of the true next states; None: v_pred[1:], correct if no trajectory is truncated.
        traj_flag: `[T, B]`, true at the last step of a trajectory, terminated or truncated; None: `weights` is 0 there.

    Returns:
        `[T+1, B, 1]`: Qret, and V of the last state.

    Raises:
        ValueError: shapes differ, or traj_flag comes without next_value.
    """
    if traj_flag is not None and next_value is None:
        raise ValueError("traj_flag needs next_value: after a truncated trajectory, v_pred[1:] is that of another one")
    v_TB = (v_pred[1:] if next_value is None else next_value).squeeze(-1)
    q_TB, rho_TB = (x.gather(-1, actions.unsqueeze(-1)).squeeze(-1) for x in (q_values[:-1], ratio))
    check_same_shape(reward=rewards, value=v_TB, weight=weights, action=actions, traj_flag=traj_flag)
    discount_TB = gamma * weights
    delta_TB = rewards + torch.where(weights == 0, 0.0, discount_TB * v_TB) - q_TB
    factor_TB = discount_TB * torch.cat([rho_TB[1:], torch.zeros_like(rho_TB[:1])]).clamp(max=1.0)
    if traj_flag is not None:
        factor_TB = factor_TB.masked_fill(traj_flag.bool(), 0.0)
    return torch.cat([(q_TB + discounted_sum(delta_TB, factor_TB)).unsqueeze(-1), v_pred[-1:]])
