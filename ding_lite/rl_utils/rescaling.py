"""Functions that rescale values, so that large returns are as easy to learn as small ones."""

from __future__ import annotations

from torch import Tensor


def value_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x (Pohlen et al. 2018, arXiv:1805.11593, prop. A.2).

    Args:
        x: any shape.
        eps: smallest slope of h, so that its inverse is Lipschitz continuous.
    """
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + eps * x


def value_inv_transform(x: Tensor, eps: float = 1e-2) -> Tensor:
    """Return the inverse of `value_transform` with the same eps, above 0.

    h^-1(x) = sign(x) (((sqrt(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1)
    """
    root = ((1.0 + 4.0 * eps * (x.abs() + 1.0 + eps)).sqrt() - 1.0) / (2.0 * eps)
    return x.sign() * (root.square() - 1.0)
