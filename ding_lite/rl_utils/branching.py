"""The loss of branching Q-learning, whose actions consist of several discrete choices.

Shapes: T steps of an n-step return, B samples, D branches (one for each choice), A options of the largest branch.
The suffix of a name gives its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.td import criterion_values, q_nstep_td_data, return_and_discount


def bdq_nstep_td_error(
    data: q_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    cum_reward: bool = False,
    value_gamma: Tensor | None = None,
    criterion: Callable[..., Tensor] = functional.mse_loss,
    mean_target: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step loss of branching Q-learning (Tavakoli et al. 2018, arXiv:1711.08946, eq. 4 to 7).

    y_d = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) Q'_d(s_{t+n}, a_{t+n,d})
    loss = mean over samples of w mean_d criterion(Q_d(s_t, a_{t,d}), y_d)

    With `mean_target`, every branch learns towards the mean of y_d over the branches, which the paper found best.

    Args:
        data: as for `q_nstep_td_error`, but q and next_n_q are `[B, D, A]`, action and next_n_action `[B, D]`.
        gamma: discount per env step.
        nstep: n, used if `value_gamma` is None.
        cum_reward: whether `reward` is already summed over the n steps.
        value_gamma: `[B]`, see `q_nstep_td_error`.
        criterion: a function or a module, see `criterion_values`.
        mean_target: whether the branches have a common target.

    Returns:
        The scalar loss, and the mean over the branches of |y_d - Q_d(s_t, a_{t,d})|, `[B]`, detached.

    Raises:
        ValueError: q and next_n_q are not both `[B, D, A]`, or the shape of reward contradicts `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, weight = data
    if q.ndim != 3 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, D, A], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    q_DB = q.gather(2, action.unsqueeze(2)).squeeze(2).t()
    with torch.no_grad():
        next_q_DB = next_n_q.gather(2, next_n_action.unsqueeze(2)).squeeze(2).t()
        if mean_target:
            next_q_DB = next_q_DB.mean(0).expand_as(q_DB)
        target_DB = return_B + discount_B * next_q_DB.masked_fill(done.bool(), 0.0)
    loss = weighted_mean(criterion_values(criterion, q_DB, target_DB).mean(0), weight)
    return loss, (target_DB - q_DB.detach()).abs().mean(0)
