"""Predictions of numbers of any size: symlog, and distributions over fixed bins (Hafner et al. 2023, arXiv:2301.04104).

A network predicts the probability of each of K bins, which lie at equal distances from -20 to 20 in units of symlog. A
target lies between two of them, and is encoded by its shares in both, its two-hot encoding.

Shapes: `...` any leading dimensions, K bins.
"""

from __future__ import annotations

import torch
from torch import Tensor

NUM_BINS, LIMIT = 255, 20.0  # the paper's


def symlog(x: Tensor) -> Tensor:
    """Return sign(x) log(|x| + 1)."""
    return x.sign() * torch.log1p(x.abs())


def symexp(x: Tensor) -> Tensor:
    """Return the inverse of `symlog`, sign(x) (exp(|x|) - 1)."""
    return x.sign() * torch.expm1(x.abs())


def two_hot_mean(logit: Tensor) -> Tensor:
    """Return the predicted numbers `[...]`, symexp(sum_k p_k b_k) with bins b, for logits `[..., K]`."""
    bins_K = torch.linspace(-LIMIT, LIMIT, logit.shape[-1], dtype=logit.dtype, device=logit.device)
    return symexp((logit.softmax(-1) * bins_K).sum(-1))


def two_hot_error(logit: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy `[...]` of the two-hot encoding of targets `[...]` and of predictions.

    -(1 - w) log p_k - w log p_{k+1},  w = (symlog(target) - b_k) / (b_{k+1} - b_k),  b_k <= symlog(target) < b_{k+1}
    """
    last = logit.shape[-1] - 1
    place = (symlog(target).clamp(-LIMIT, LIMIT) + LIMIT) * (last / (2 * LIMIT))  # in units of a bin, from the first
    below = place.nan_to_num().floor().clamp(max=last - 1)
    logp, index = logit.log_softmax(-1), below.long().unsqueeze(-1)
    pair = torch.cat([logp.gather(-1, index), logp.gather(-1, index + 1)], -1)
    share = place - below + 0.0 * target  # an infinite target becomes nan and is noticed
    return -torch.lerp(pair[..., 0], pair[..., 1], share)
