"""DI-engine's losses of distributions of the return: C51, QR-DQN, IQN and FQF.

Shapes: K atoms or quantiles, J quantiles of the target. The docstring of `rl_utils` explains arguments and the other
shapes, `q_nstep_td_error` the fields that are not listed here.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import torch
from torch import Tensor

from ding_lite.di_engine.losses.td import nstep_target
from ding_lite.rl_utils.categorical import kl_to_target, project_distribution, project_target
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.quantile import quantile_loss

dist_nstep_td_data = namedtuple(
    "dist_nstep_td_data", "dist next_n_dist act next_n_act reward done weight", defaults=[None]
)
dist_1step_td_data = namedtuple("dist_1step_td_data", "dist next_dist act next_act reward done weight", defaults=[None])


def categorical_projection(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> Tensor:
    """Return the distribution of `project_target`."""
    return project_target(next_dist_BK, reward_B, done_B, value_gamma_B, v_min=v_min, v_max=v_max)[0]


def dist_1step_td_error(data: dist_1step_td_data, gamma: float, v_min: float, v_max: float, n_atom: int) -> Tensor:
    """Return the loss of `dist_nstep_td_error` for one step with `reward` `[B]`, a scalar."""
    nstep_data = dist_nstep_td_data._make(data)
    return dist_nstep_td_error(nstep_data, gamma, v_min=v_min, v_max=v_max, n_atom=n_atom, cum_reward=True)[0]


def dist_nstep_td_error(
    data: dist_nstep_td_data,
    gamma: float,
    v_min: float,
    v_max: float,
    n_atom: int,
    nstep: int = 1,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step loss of C51, the cross entropy of target and prediction (arXiv:1707.06887, algorithm 1).

    y_j = sum_{k<n} gamma^k r_{t+k} + gamma^n (1 - done) z_j
    m = the projection onto the support of the atoms y_j with the probabilities p'_j(s_{t+n}, a_{t+n})
    loss = weighted mean over samples of -sum_i m_i log p_i(s_t, a_t)

    p and p' are the probabilities `dist` and `next_n_dist`, `[B, A, K]`, of `n_atom` atoms from `v_min` to `v_max`. The
    gradient flows through `dist`. The second result is the priority of each sample, `[B]`, see `kl_to_target`.
    """
    dist, next_dist = data.dist, data.next_n_dist
    if dist.ndim != 3 or dist.shape != next_dist.shape or dist.shape[-1] != n_atom:
        shapes = f"{tuple(dist.shape)} and {tuple(next_dist.shape)}"
        raise ValueError(f"dist and the next dist must both be [B, A, {n_atom}] for n_atom={n_atom}, got {shapes}")
    sample_B = torch.arange(len(dist), device=dist.device)
    with torch.no_grad():
        support_K1 = torch.linspace(v_min, v_max, n_atom, dtype=dist.dtype, device=dist.device)[:, None]
        support_KB = support_K1.expand(-1, len(dist))
        atom_KB = nstep_target(data, support_KB, gamma, nstep, cum_reward=cum_reward, value_gamma=value_gamma)
        target_BK = project_distribution(next_dist[sample_B, data.next_n_act], atom_KB.t(), v_min=v_min, v_max=v_max)
    log_BK = dist[sample_B, data.act].clamp_min(torch.finfo(dist.dtype).tiny).log()
    loss_B = -(target_BK * log_BK).sum(-1)
    return weighted_mean(loss_B, data.weight), kl_to_target(loss_B, target_BK)


qrdqn_nstep_td_data = namedtuple(
    "qrdqn_nstep_td_data", "q next_n_q action next_n_action reward done tau weight", defaults=[None]
)
iqn_nstep_td_data = namedtuple(
    "iqn_nstep_td_data", "q next_n_q action next_n_action reward done replay_quantiles weight", defaults=[None]
)
fqf_nstep_td_data = namedtuple(
    "fqf_nstep_td_data", "q next_n_q action next_n_action reward done quantiles_hats weight", defaults=[None]
)


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

    theta are the quantiles `q`, through which the gradient flows, theta' the quantiles `next_n_q`, both `[B, A, K]`,
    and `tau` `[B, K, 1]` the probabilities of `q`. L is the Huber loss of `quantile_loss`. Unlike in the paper, it is
    not divided by kappa. The second result is the unweighted loss of each sample, `[B]`, detached.
    """
    options: dict[str, Any] = dict(nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return _quantile_error(data, "B, A, K", data.tau[..., 0], gamma, kappa, **options)


def iqn_nstep_td_error(
    data: iqn_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    kappa: float = 1.0,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step quantile loss of IQN (Dabney et al. 2018, arXiv:1806.06923, eq. 3).

    It is the loss of `qrdqn_nstep_td_error`, divided by kappa unless kappa is 0, for `q` `[K, B, A]`, `next_n_q`
    `[J, B, A]`, and any probabilities `replay_quantiles`, `[K, B, 1]` or `[K B, 1]`.
    """
    options: dict[str, Any] = dict(nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return _quantile_error(data, "K, B, A", data.replay_quantiles, gamma, kappa, **options)


def fqf_nstep_td_error(
    data: fqf_nstep_td_data,
    gamma: float,
    nstep: int = 1,
    kappa: float = 1.0,
    value_gamma: Tensor | None = None,
    cum_reward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-step quantile loss of FQF (Yang et al. 2019, arXiv:1911.02140, eq. 10).

    It is the loss of `iqn_nstep_td_error` for `q` `[B, K, A]`, `next_n_q` `[B, J, A]`, and the probabilities
    `quantiles_hats` `[B, K]`, the midpoints of intervals.
    """
    options: dict[str, Any] = dict(nstep=nstep, cum_reward=cum_reward, value_gamma=value_gamma)
    return _quantile_error(data, "B, K, A", data.quantiles_hats, gamma, kappa, **options)


def _quantile_error(
    data: Any, dims: str, tau: Tensor, gamma: float, kappa: float, **options: Any
) -> tuple[Tensor, Tensor]:
    """Return the results of one of the losses of quantiles, whose dimensions have the order of `dims`.

    `tau` are the probabilities as that loss has them, and `options` arguments of `nstep_target`.
    """
    q, next_q, of_qrdqn = data.q, data.next_n_q.detach(), dims == "B, A, K"
    axes = [dims.split(", ").index(dim) for dim in "BAK"]
    alike = axes if of_qrdqn else axes[:2]  # the others may have another number of quantiles in the target
    if q.ndim != 3 or next_q.ndim != 3 or any(q.shape[axis] != next_q.shape[axis] for axis in alike):
        raise ValueError(f"q and next_n_q must both be [{dims}], got {tuple(q.shape)} and {tuple(next_q.shape)}")
    tau_BK = tau.reshape(q.shape[:2]).t() if dims == "K, B, A" else tau
    sample_B = torch.arange(q.shape[axes[0]], device=q.device)
    theta_BK, next_theta_BJ = q.permute(axes)[sample_B, data.action], next_q.permute(axes)[sample_B, data.next_n_action]
    target_BJ = nstep_target(data, next_theta_BJ.t(), gamma, **options).t()
    loss_B = quantile_loss(theta_BK, target_BJ, tau_BK, kappa=kappa)
    loss_B = loss_B if of_qrdqn else loss_B / (kappa or 1.0)
    return weighted_mean(loss_B, data.weight), loss_B.detach()
