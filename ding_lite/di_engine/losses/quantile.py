"""DI-engine's losses of QR-DQN, IQN and FQF.

Shapes: K quantiles, J quantiles of the target. The docstring of `rl_utils` explains arguments and the other shapes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ding_lite.di_engine.losses.td import nstep_target
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.quantile import quantile_loss


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
