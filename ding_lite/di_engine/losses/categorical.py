"""DI-engine's losses of C51; `rl_utils/categorical.py` explains the distributions, `rl_utils` arguments and shapes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.di_engine.losses.td import nstep_target
from ding_lite.rl_utils.categorical import kl_to_target, project_distribution, project_target
from ding_lite.rl_utils.common import weighted_mean


class dist_nstep_td_data(NamedTuple):  # noqa: N801 (DI-engine's name, like the one below)
    """Input of `dist_nstep_td_error`.

    Attributes:
        dist: `[B, A, K]`, probabilities of the atoms at s_t, by the online network; the gradient flows through it.
        next_n_dist: `[B, A, K]`, the same at s_{t+n}, usually by the target network.
        act: `[B]`, integer actions taken at t.
        next_n_act: `[B]`, integer actions chosen at t+n.
        reward: `[T, B]`, rewards of the n steps, or with `cum_reward=True` `[B]`, their discounted sums.
        done: `[B]`, true where the n steps ended in a terminal state.
    """

    dist: Tensor
    next_n_dist: Tensor
    act: Tensor
    next_n_act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


class dist_1step_td_data(NamedTuple):  # noqa: N801
    """Input of `dist_1step_td_error`: the fields of `dist_nstep_td_data` for one step, with `reward` `[B]`."""

    dist: Tensor
    next_dist: Tensor
    act: Tensor
    next_act: Tensor
    reward: Tensor
    done: Tensor
    weight: Tensor | None = None


def categorical_projection(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> Tensor:
    """Return the distribution of `project_target`."""
    return project_target(next_dist_BK, reward_B, done_B, value_gamma_B, v_min=v_min, v_max=v_max)[0]


def dist_1step_td_error(data: dist_1step_td_data, gamma: float, v_min: float, v_max: float, n_atom: int) -> Tensor:
    """Return the loss of `dist_nstep_td_error` for one step, a scalar."""
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

    p are the probabilities `dist`, p' the probabilities `next_n_dist` of `n_atom` atoms from `v_min` to `v_max`. The
    second result is the priority of each sample, `[B]`, see `kl_to_target`.
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
