"""Distributional values at fixed atoms (Bellemare et al. 2017, arXiv:1707.06887).

Shapes: B samples, K atoms. The suffix of a name gives its dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor


def categorical_projection(
    next_dist_BK: Tensor, reward_B: Tensor, done_B: Tensor, value_gamma_B: Tensor, v_min: float, v_max: float
) -> Tensor:
    """Return the distribution of the target r + g (1 - done) Z(s') on the atoms of Z(s'), `[B, K]`.

    The atoms are z_k = v_min + k d, d = (v_max - v_min) / (K - 1). The probability p_k of z_k moves to the value
    T_k = r + g (1 - done) z_k, which is clipped to v_min..v_max and divided between the two nearest atoms:

        m_i = sum_k p_k max(0, 1 - |T_k - z_i| / d)

    Source: Bellemare et al. 2017, arXiv:1707.06887, eq. 7.

    Args:
        next_dist_BK: the probabilities p of Z(s'), usually of the target network.
        reward_B: r, the discounted sum of the rewards of n steps.
        done_B: true where s' is terminal.
        value_gamma_B: g, the discount of Z(s').
        v_min: the smallest atom.
        v_max: the largest atom.

    Raises:
        ValueError: next_dist_BK is not `[B, K]` for the B of the other arguments.
    """
    vectors = (reward_B, done_B, value_gamma_B)
    if next_dist_BK.ndim != 2 or any(vector.shape != next_dist_BK.shape[:1] for vector in vectors):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (next_dist_BK, *vectors))
        raise ValueError(f"expected a distribution [B, K], and reward, done and value_gamma [B], got {shapes}")
    num = next_dist_BK.shape[1]
    atom_K = torch.linspace(v_min, v_max, num, dtype=next_dist_BK.dtype, device=next_dist_BK.device)
    scale_B1 = value_gamma_B.masked_fill(done_B.bool(), 0.0)[:, None]
    value_BK = (reward_B[:, None] + scale_B1 * atom_K).clamp(v_min, v_max)
    place_BK = ((value_BK - v_min) * ((num - 1) / (v_max - v_min))).clamp(max=num - 1)  # in units of d, from v_min
    lower_BK = place_BK.floor()
    upper_share_BK = place_BK - lower_BK
    lower_BK = lower_BK.long()
    projected_BK = torch.zeros_like(next_dist_BK)
    projected_BK.scatter_add_(1, lower_BK, next_dist_BK * (1.0 - upper_share_BK))
    projected_BK.scatter_add_(1, (lower_BK + 1).clamp(max=num - 1), next_dist_BK * upper_share_BK)
    return projected_BK
