"""Functions that several losses and returns share: checks, weighted means, sums backward in time."""

from __future__ import annotations

import torch
from torch import Tensor


def check_same_shape(**tensors: Tensor | None) -> None:
    """Raise ValueError unless all given tensors have one shape; broadcasting `[B]` to `[B, 1]` would hide mistakes."""
    shapes = {name: tensor.shape for name, tensor in tensors.items() if tensor is not None}
    if len(set(shapes.values())) > 1:
        given = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected tensors of one shape, got {given}")


def weighted_mean(x: Tensor, weight: Tensor | None) -> Tensor:
    """Return mean(weight * x), which is not divided by the sum of the weights; None means ones."""
    return x.mean() if weight is None else (x * weight).mean()


@torch.no_grad()
def discounted_sum(delta_TB: Tensor, factor_TB: Tensor) -> Tensor:
    """Return the sums s_t = delta_t + factor_t s_{t+1}, s_T = 0, `[T, ...]`, without gradient."""
    sum_TB = delta_TB.clone()
    sums, factors = sum_TB.unbind(), factor_TB.unbind()
    for t in range(len(sums) - 2, -1, -1):
        sums[t].addcmul_(factors[t], sums[t + 1])
    return sum_TB
