"""Projection of categorical distributions of returns, as in C51 (Bellemare et al. 2017, arXiv:1707.06887).

The return of an action is one of K values, the atoms z_i = v_min + i dz of the support, with dz = (v_max - v_min) /
(K - 1). A network predicts the probability p_i of each.

The package's docstring explains arguments and shapes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def project_distribution(dist_BK: Tensor, atom_BK: Tensor, v_min: float, v_max: float) -> Tensor:
    """Project distributions with any atoms onto the support (arXiv:1707.06887, eq. 7).

    p_i = sum_j [1 - |[y_j]_{v_min}^{v_max} - z_i| / dz]_0^1 q_j

    for probabilities q `dist_BK` of the atoms y `atom_BK`. An atom between two of the support splits its probability
    between them, with more for the nearer one; one outside the support gives it to the nearer end.
    """
    num_atoms = dist_BK.shape[-1]
    clipped_BK = atom_BK.clamp(v_min, v_max) + 0.0 * atom_BK  # an infinite return becomes nan and is noticed
    place_BK = (clipped_BK - v_min) * ((num_atoms - 1) / (v_max - v_min))  # position in units of dz, from v_min
    index_K1 = torch.arange(num_atoms, dtype=dist_BK.dtype, device=dist_BK.device)[:, None]
    share_BKK = (1.0 - (place_BK.clamp(max=num_atoms - 1)[:, None] - index_K1).abs()).clamp(min=0.0)
    return (share_BKK * dist_BK[:, None]).sum(-1)


def project_target(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> tuple[Tensor, Tensor]:
    """Return the distribution of the target r + g (1 - done) Z(s'), projected onto the support of Z(s'), `[B, K]`.

    Also return the probability `[B]` that the projection moves to the ends of the support; if it is not small, the
    support is too narrow for the rewards. Reward and discount are those of `bootstrapped`.
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


@torch.no_grad()
def kl_to_target(cross_entropy_B: Tensor, target_BK: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of targets and predictions, `[B]`, the priority of their samples.

    KL(m, p) = -sum_i m_i log p_i + sum_i m_i log m_i

    The first term is `cross_entropy_B`, and m is `target_BK`. The entropy of the target, by which it differs from the
    cross entropy, is usually much larger than the error, and would make all priorities nearly equal.
    """
    return (cross_entropy_B + torch.xlogy(target_BK, target_BK).sum(-1)).clamp(min=0.0)
