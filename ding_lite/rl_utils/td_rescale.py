"""The temporal-difference loss of rescaled values of discrete actions.

Shapes: T steps of an n-step return, B samples, A discrete actions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.td import criterion_values, q_nstep_td_data, return_and_discount
from ding_lite.rl_utils.value_rescale import value_inv_transform, value_transform


def q_nstep_td_error_with_rescale(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    value_gamma: Tensor | None = None,
    criterion: Callable[..., Tensor] = functional.mse_loss,
    trans_fn: Callable[[Tensor], Tensor] = value_transform,
    inv_trans_fn: Callable[[Tensor], Tensor] = value_inv_transform,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the loss of n-step Q-learning of rescaled values (Pohlen et al. 2018, arXiv:1805.11593).

    target = h(sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) h^-1(Q'(s_{t+n}, a_{t+n})))
    loss = mean(w criterion(Q(s_t, a_t), target))

    Args:
        data: see `q_nstep_td_data`; `q` and `next_n_q` are rescaled values, `reward` has the units of rewards.
        gamma: discount per env step.
        nstep: n, used if `value_gamma` is None.
        value_gamma: see `q_nstep_td_error`.
        criterion: a function or a module, see `criterion_values`.
        trans_fn: h.
        inv_trans_fn: the inverse of h.
        cum_reward: see `q_nstep_td_error`.

    Returns:
        The scalar loss, and the TD errors target - Q(s_t, a_t) `[B]` of rescaled values, detached.

    Raises:
        ValueError: q and next_n_q are not both `[B, A]`, or the shape of reward contradicts `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    if q.ndim != 2 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    q_B = q.gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        next_q_B = inv_trans_fn(next_n_q.gather(1, next_n_action.unsqueeze(1)).squeeze(1))
        target_B = trans_fn(return_B + discount_B * next_q_B.masked_fill(done.bool(), 0.0))
    loss = weighted_mean(criterion_values(criterion, q_B, target_B), weight)
    return loss, target_B - q_B.detach()
