"""Losses of categorical distributions of returns, as in C51 (Bellemare et al. 2017, arXiv:1707.06887).

The return of an action is one of K values, the atoms z_i = v_min + i dz of the support, with dz = (v_max - v_min) /
(K - 1). A network predicts the probability p_i of each.

The package's docstring explains arguments and shapes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.td import nstep_target


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


def project_distribution(dist_BK: Tensor, atom_BK: Tensor, v_min: float, v_max: float) -> Tensor:
    """Project distributions with any atoms onto the support (arXiv:1707.06887, eq. 7).

    p_i = sum_j [1 - |[y_j]_{v_min}^{v_max} - z_i| / dz]_0^1 q_j

    An atom between two of the support splits its probability between them, with more for the nearer one; one outside
    the support gives it to the nearer end.

    Args:
        dist_BK: `[B, K]`, the probabilities q.
        atom_BK: `[B, K]`, their atoms y.
        v_min: first atom of the support.
        v_max: last atom of the support.

    Returns:
        `[B, K]`, the probabilities p of the support's atoms.
    """
    num_atoms = dist_BK.shape[-1]
    clipped_BK = atom_BK.clamp(v_min, v_max) + 0.0 * atom_BK  # an infinite return becomes nan and is noticed
    place_BK = (clipped_BK - v_min) * ((num_atoms - 1) / (v_max - v_min))  # position in units of dz, from v_min
    index_K1 = torch.arange(num_atoms, dtype=dist_BK.dtype, device=dist_BK.device)[:, None]
    share_BKK = (1.0 - (place_BK.clamp(max=num_atoms - 1)[:, None] - index_K1).abs()).clamp(min=0.0)
    return (share_BKK * dist_BK[:, None]).sum(-1)


def categorical_projection(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> Tensor:
    """Return the distribution of `project_target`."""
    return project_target(next_dist_BK, reward_B, done_B, value_gamma_B, v_min=v_min, v_max=v_max)[0]


def project_target(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> tuple[Tensor, Tensor]:
    """Return the distribution of the target r + g (1 - done) Z(s'), projected onto the support of Z(s'), `[B, K]`.

    Args:
        next_dist_BK: the probabilities of the atoms of Z(s'), usually by the target network.
        reward_B: r, the discounted sum of the rewards of n steps.
        done_B: true where s' is terminal.
        value_gamma_B: g, the discount of Z(s').
        v_min: first atom of the support.
        v_max: last atom of the support.

    Returns:
        The distribution, and the probability `[B]` that the projection moves to the ends of the support. If it is not
        small, the support is too narrow for the rewards.
    """
    vectors = (reward_B, done_B, value_gamma_B)
    if next_dist_BK.ndim != 2 or any(vector.shape != next_dist_BK.shape[:1] for vector in vectors):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (next_dist_BK, *vectors))
        raise ValueError(f"expected a distribution [B, K], and reward, done and value_gamma [B], got {shapes}")
    num_atoms = next_dist_BK.shape[1]
    support_K = torch.linspace(v_min, v_max, num_atoms, dtype=next_dist_BK.dtype, device=next_dist_BK.device)
    scale_B = value_gamma_B.masked_fill(done_B.bool(), 0.0)
    atom_BK = reward_B[:, None] + scale_B[:, None] * support_K
    outside_BK = (atom_BK < v_min) | (atom_BK > v_max)
    target_BK = project_distribution(next_dist_BK, atom_BK, v_min=v_min, v_max=v_max)
    return target_BK, (next_dist_BK * outside_BK).sum(-1)


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


@torch.no_grad()
def kl_to_target(cross_entropy_B: Tensor, target_BK: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of targets and predictions, `[B]`, the priority of their samples.

    KL(m, p) = -sum_i m_i log p_i + sum_i m_i log m_i

    It has the gradient of the cross entropy, but is 0 for a perfect prediction. The entropy of the target, by which
    they differ, is usually much larger than the error, and would make all priorities nearly equal.

    Args:
        cross_entropy_B: `-sum_i m_i log p_i`.
        target_BK: the probabilities m.
    """
    return (cross_entropy_B + torch.xlogy(target_BK, target_BK).sum(-1)).clamp(min=0.0)
