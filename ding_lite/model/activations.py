"""Activation functions, and the normalisation before them, under the names that configs use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.utils.activation import activation_name
from ding_lite.utils.registry import ConfigError

Activation = str | nn.Module | type[nn.Module]  # a key of `ACTIVATIONS`, or torch's module of the same function
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "elu": functional.elu,
    "silu": functional.silu,
}


def find_activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function that a name, a module or its class stands for.

    Raises:
        ConfigError: it is none of `ACTIVATIONS`.
    """
    return ACTIVATIONS[activation_name(activation)]


def with_norm(layer: nn.Module, size: int, norm_type: str | None) -> nn.Module:
    """Return a layer followed by the normalisation of its output, which precedes the activation.

    Args:
        layer: a layer without activation.
        size: number of its output features.
        norm_type: 'LN': layer normalisation (Ba et al. 2016, arXiv:1607.06450); None: the layer itself.

    Raises:
        ConfigError: another type.
    """
    check_norm_type(norm_type)
    return layer if norm_type is None else nn.Sequential(layer, nn.LayerNorm(size))


def check_norm_type(norm_type: str | None) -> None:
    """Check `policy.model.norm_type`.

    Raises:
        ConfigError: it is neither None nor 'LN'. Batch normalisation is not offered, because the statistics of a batch
            would be those of one rank's share, so that N processes would not take the step of one.
    """
    if norm_type not in (None, "LN"):
        raise ConfigError(
            f"policy.model.norm_type must be None or 'LN', got {norm_type!r}: statistics of a batch would differ "
            "between ranks. Use 'LN', layer normalisation, whose statistics are those of each sample."
        )
