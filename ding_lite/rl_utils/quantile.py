"""Quantile regression losses of distributional values (Dabney et al. 2018, arXiv:1710.10044).

Shapes: T steps of an n-step return, B samples, A discrete actions, K quantiles. The suffix of a name gives its
dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.td import return_and_discount


class qrdqn_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `qrdqn_nstep_td_error`.

    Attributes:
        q: `[B, A, K]`, quantiles of the return at s_t, by the learning network; the gradient flows through it.
        next_n_q: `[B, A, K]`, quantiles of the return at s_{t+n}, usually by the target network.
        action: `[B]`; see `q_nstep_td_data` for this and the next three.
        next_n_action: `[B]`.
        reward: `[T, B]`, or `[B]` with `cum_reward=True`.
        done: `[B]`.
        tau: `[B, K, 1]`, the probabilities of the quantiles `q`, in (0, 1).
        weight: `[B]`, importance weights; None: all are 1.
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    tau: Tensor
    weight: Tensor | None = None


def qrdqn_nstep_td_error(
    data: qrdqn_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
    kappa: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return the n-step quantile regression loss (Dabney et al. 2018, arXiv:1710.10044, eq. 10 and algorithm 1).

    target_j = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) theta'_j(s_{t+n}, a_{t+n}), u_ij = target_j - theta_i
    loss = weighted mean over samples of sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij)

    theta are the quantiles `q`, theta' the quantiles `next_n_q`. L is Huber's loss: u^2 / 2 if |u| <= kappa, else
    kappa (|u| - kappa / 2). Unlike in the paper, it is not divided by kappa.

    Args:
        data: see `qrdqn_nstep_td_data`.
        gamma: discount per environment step.
        nstep: n, used if `value_gamma` is None.
        value_gamma: `[B]`, see `q_nstep_td_error`.
        cum_reward: see `q_nstep_td_error`.
        kappa: threshold of Huber's loss; with 0, L(u) = |u|, whose minimum is at the exact quantiles.

    Returns:
        The scalar loss, and the unweighted loss of each sample, `[B]`, detached.

    Raises:
        ValueError: q and next_n_q are not both `[B, A, K]`, or the shape of reward contradicts `cum_reward`.
    """
    q, next_n_q, action, next_n_action, reward, done, tau, weight = data
    if q.ndim != 3 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A, K], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    return_B, discount_B = return_and_discount(reward, gamma, nstep, cum_reward, value_gamma)
    sample_B = torch.arange(len(q), device=q.device)
    theta_BK1 = q[sample_B, action, :, None]
    with torch.no_grad():
        next_theta_KB = next_n_q[sample_B, next_n_action].masked_fill(done.bool()[:, None], 0.0).t()
        target_B1K = (return_B + discount_B * next_theta_KB).t()[:, None]
        weight_BKK = (tau - (target_B1K < theta_BK1).to(q.dtype)).abs()
    theta_BKK, target_BKK = torch.broadcast_tensors(theta_BK1, target_B1K)
    if kappa > 0:
        error_BKK = functional.huber_loss(theta_BKK, target_BKK, reduction="none", delta=kappa)
    else:
        error_BKK = (target_BKK - theta_BKK).abs()
    loss_B = (weight_BKK * error_BKK).mean(2).sum(1)
    loss = loss_B.mean() if weight is None else (loss_B * weight).mean()
    return loss, loss_B.detach()
