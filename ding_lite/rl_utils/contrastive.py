"""The contrastive loss InfoNCE, which is small if two embeddings of a pair can be told from those of other pairs.

Shapes: B pairs, H and K embeddings of each half of a pair, E features of an embedding.
"""

from __future__ import annotations

import torch
from torch import Tensor


def info_nce(x_BHE: Tensor, y_BKE: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the loss InfoNCE (van den Oord et al. 2018, arXiv:1807.03748, eq. 4), a scalar.

    -mean_{i, h, k} log [ exp s(x_ih, y_ik) / (exp s(x_ih, y_ik) + sum_{j != i, l} exp s(x_jl, y_ik)) ]
    with s(x, y) = temperature <x, y>

    It is the cross entropy of finding, for the half y of a pair, its half x among those of all pairs. With a single
    pair it is 0.

    Args:
        x_BHE: embeddings of one half of each pair.
        y_BKE: embeddings of the other half.
        temperature: what the scores are multiplied by, as in DI-engine.

    Raises:
        ValueError: the numbers of pairs or features differ.
    """
    if len(x_BHE) != len(y_BKE) or x_BHE.shape[-1] != y_BKE.shape[-1]:
        raise ValueError(f"expected x [B, H, E] and y [B, K, E], got {tuple(x_BHE.shape)} and {tuple(y_BKE.shape)}")
    score_BKBH = temperature * torch.einsum("ike,jhe->ikjh", y_BKE, x_BHE)
    own_KHB = score_BKBH.diagonal(dim1=0, dim2=2)
    same_BB = torch.eye(len(x_BHE), dtype=torch.bool, device=x_BHE.device)
    others_BK = score_BKBH.masked_fill(same_BB[:, None, :, None], -torch.inf).flatten(2).logsumexp(-1)
    return (torch.logaddexp(own_KHB, others_BK.t().unsqueeze(1)) - own_KHB).mean()
