"""Quantile regression losses of distributional values: QR-DQN, IQN and FQF.

Shapes: K quantiles, J quantiles of the target. The package's docstring explains arguments and the other shapes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.td import nstep_target


class qrdqn_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name, like those below)
    """Input of `qrdqn_nstep_td_error`; see `q_nstep_td_data` for what is not listed.

    Attributes:
        q: `[B, A, K]`, quantiles of the return at s_t, by the online network; the gradient flows through it.
        next_n_q: `[B, A, K]`, quantiles of the return at s_{t+n}, usually by the target network.
        tau: `[B, K, 1]`, the probabilities of the quantiles `q`, in (0, 1).
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

    theta are the quantiles `q`, theta' the quantiles `next_n_q`, and L is the Huber loss of `quantile_loss`. Unlike in
    the paper, it is not divided by kappa. The second result is the unweighted loss of each sample, `[B]`, detached.
    """
    q, next_n_q = data.q, data.next_n_q
    if q.ndim != 3 or q.shape != next_n_q.shape:
        raise ValueError(f"q and next_n_q must both be [B, A, K], got {tuple(q.shape)} and {tuple(next_n_q.shape)}")
    options: dict[str, Any] = dict(nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    loss_B = _quantile_error(data, q, next_n_q, data.tau[..., 0], gamma, kappa, **options)
    return weighted_mean(loss_B, data.weight), loss_B.detach()


def _quantile_error(
    data: Any, q_BAK: Tensor, next_q_BAJ: Tensor, tau_BK: Tensor, gamma: float, kappa: float, **options: Any
) -> Tensor:
    """Return the unweighted loss of `qrdqn_nstep_td_error`, `[B]`; `options` are arguments of `nstep_target`."""
    sample_B = torch.arange(len(q_BAK), device=q_BAK.device)
    next_theta_JB = next_q_BAJ[sample_B, data.next_n_action].detach().t()
    target_BJ = nstep_target(data, next_theta_JB, gamma, **options).t()
    return quantile_loss(q_BAK[sample_B, data.action], target_BJ, tau_BK, kappa=kappa)


class iqn_nstep_td_data(NamedTuple):  # noqa: N801
    """Input of `iqn_nstep_td_error`; see `q_nstep_td_data` for what is not listed.

    Attributes:
        q: `[K, B, A]`, quantiles of the return at s_t, by the online network; the gradient flows through it.
        next_n_q: `[J, B, A]`, quantiles of the return at s_{t+n}, usually by the target network.
        replay_quantiles: `[K, B, 1]` or `[K B, 1]`, the probabilities of the quantiles `q`, in [0, 1].
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    replay_quantiles: Tensor
    weight: Tensor | None = None


def iqn_nstep_td_error(
    data: iqn_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    kappa: float = 1.0,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step quantile loss of IQN (Dabney et al. 2018, arXiv:1806.06923, eq. 3).

    It is the loss of `qrdqn_nstep_td_error`, divided by kappa unless kappa is 0, for quantiles of any probabilities.
    """
    q, next_n_q = data.q, data.next_n_q
    if q.ndim != 3 or next_n_q.ndim != 3 or q.shape[1:] != next_n_q.shape[1:]:
        shapes = f"{tuple(q.shape)} and {tuple(next_n_q.shape)}"
        raise ValueError(f"q and next_n_q must be [K, B, A] and [J, B, A], got {shapes}")
    q_BAK, next_q_BAJ = q.permute(1, 2, 0), next_n_q.permute(1, 2, 0)
    tau_BK = data.replay_quantiles.reshape(q.shape[:2]).t()
    options: dict[str, Any] = dict(nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    loss_B = _quantile_error(data, q_BAK, next_q_BAJ, tau_BK, gamma, kappa, **options) / (kappa or 1.0)
    return weighted_mean(loss_B, data.weight), loss_B.detach()


class fqf_nstep_td_data(NamedTuple):  # noqa: N801
    """Input of `fqf_nstep_td_error`; see `q_nstep_td_data` for what is not listed.

    Attributes:
        q: `[B, K, A]`, quantiles of the return at s_t, by the online network; the gradient flows through it.
        next_n_q: `[B, J, A]`, quantiles of the return at s_{t+n}, usually by the target network.
        quantiles_hats: `[B, K]`, the probabilities of the quantiles `q`, the midpoints of intervals.
    """

    q: Tensor
    next_n_q: Tensor
    action: Tensor
    next_n_action: Tensor
    reward: Tensor
    done: Tensor
    quantiles_hats: Tensor
    weight: Tensor | None = None


def fqf_nstep_td_error(
    data: fqf_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    kappa: float = 1.0,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step quantile loss of FQF (Yang et al. 2019, arXiv:1911.02140, eq. 10).

    It is the loss of `iqn_nstep_td_error` for the probabilities `quantiles_hats`.
    """
    q, next_n_q = data.q, data.next_n_q
    if q.ndim != 3 or next_n_q.ndim != 3 or q.shape[::2] != next_n_q.shape[::2]:
        shapes = f"{tuple(q.shape)} and {tuple(next_n_q.shape)}"
        raise ValueError(f"q and next_n_q must be [B, K, A] and [B, J, A], got {shapes}")
    by_quantile = iqn_nstep_td_data._make(data)._replace(
        q=q.transpose(0, 1), next_n_q=next_n_q.transpose(0, 1), replay_quantiles=data.quantiles_hats.t()
    )
    return iqn_nstep_td_error(by_quantile, gamma, nstep, kappa=kappa, value_gamma=value_gamma, cum_reward=cum_reward)


def fqf_calculate_fraction_loss(
    q_tau_i: Tensor, q_value: Tensor, quantiles: Tensor, actions: Tensor, weight: Tensor | None = None
) -> Tensor:
    """Return a loss whose gradient with respect to the ends tau of FQF's intervals is that of a Wasserstein distance.

    K steps at the intervals' midpoints h approximate the quantile function Z of the return. The 1-Wasserstein distance
    W to them has the derivative (Yang et al. 2019, arXiv:1911.02140, eq. 7)

    dW / d tau_i = (Z(tau_i) - Z(h_{i-1})) - (Z(h_i) - Z(tau_i)),   0 < i < K

    if Z does not decrease. A network's quantiles may decrease. The first difference then changes its sign where Z
    decreases from the previous inner end (from h_0 for i = 1) to tau_i, and the second one where Z decreases from tau_i
    to the next inner end (to h_{K-1} for i = K - 1).

    loss = weighted mean over samples of sum_i tau_i dW / d tau_i, with a constant second factor

    Args:
        q_tau_i: `[B, K - 1, A]`, the quantiles Z of the inner ends tau_1 to tau_{K-1}.
        q_value: `[B, K, A]`, the quantiles Z of the midpoints h_0 to h_{K-1}.
        quantiles: `[B, K + 1]`, the ends tau_0 to tau_K; the gradient flows through it only.
        actions: `[B]`, integer actions.
        weight: `[B]`, importance weights; None: all are 1.

    Returns:
        The scalar loss. Its value has no meaning, only its gradient.
    """
    num_quantiles = q_value.shape[1]
    if q_tau_i.shape[1] != num_quantiles - 1 or quantiles.shape[1] != num_quantiles + 1:
        shapes = f"{tuple(q_tau_i.shape)}, {tuple(q_value.shape)} and {tuple(quantiles.shape)}"
        raise ValueError(f"q_tau_i, q_value and quantiles must be [B, K-1, A], [B, K, A] and [B, K+1], got {shapes}")
    sample_B = torch.arange(len(actions), device=actions.device)
    with torch.no_grad():
        end_BK, middle_BK = q_tau_i[sample_B, :, actions], q_value[sample_B, :, actions]
        before_BK = torch.cat([middle_BK[:, :1], end_BK[:, :-1]], 1)
        after_BK = torch.cat([end_BK[:, 1:], middle_BK[:, -1:]], 1)
        left_BK, right_BK = end_BK - middle_BK[:, :-1], end_BK - middle_BK[:, 1:]
        slope_BK = torch.where(end_BK > before_BK, left_BK, -left_BK)
        slope_BK = slope_BK + torch.where(end_BK < after_BK, right_BK, -right_BK)
    return weighted_mean((slope_BK * quantiles[:, 1:-1]).sum(1), weight)


def quantile_loss(theta_BK: Tensor, target_BJ: Tensor, tau_BK: Tensor, kappa: float) -> Tensor:
    """Return sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij), u_ij = target_j - theta_i, `[B]`.

    Args:
        theta_BK: quantiles of the return; the gradient flows through them.
        target_BJ: quantiles of the target.
        tau_BK: the probabilities of `theta_BK`.
        kappa: L is the Huber loss, u^2 / 2 if |u| <= kappa, else kappa (|u| - kappa / 2); with 0, L(u) = |u|.
    """
    theta_BKJ, target_BKJ = torch.broadcast_tensors(theta_BK[..., None], target_BJ[:, None])
    weight_BKJ = (tau_BK[..., None] - (target_BKJ < theta_BKJ).to(theta_BK.dtype)).abs().detach()
    if kappa > 0:
        error_BKJ = functional.huber_loss(theta_BKJ, target_BKJ, reduction="none", delta=kappa)
    else:
        error_BKJ = (target_BKJ - theta_BKJ).abs()
    return (weight_BKJ * error_BKJ).mean(2).sum(1)
