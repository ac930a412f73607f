"""The rescaling of values of Pohlen et al. 2018, arXiv:1805.11593, and its inverse.

Large returns are compressed, so that games with rewards of very different size can be learned with the same settings
and without clipping rewards.
"""

from __future__ import annotations

import torch
from torch import Tensor


def value_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (proposition A.2), of the same shape.

    Args:
        x: values in the units of rewards.
        eps: slope for large values, above 0; it keeps the inverse Lipschitz continuous.
    """
    return torch.sign(x) * (torch.sqrt(torch.abs(x) + 1) - 1) + eps * x


def value_inv_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return the x' with h(x') = x, of the same shape.

    h^-1(x) = sign(x) (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1)

    Args:
        x: values that `value_transform` returned.
        eps: the same as for `value_transform`.
    """
    root = (torch.sqrt(1 + 4 * eps * (torch.abs(x) + 1 + eps)) - 1) / (2 * eps)
    return torch.sign(x) * (torch.square(root) - 1)
