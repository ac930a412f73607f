"""Activation functions, under the names that configs use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.utils.activation import activation_name

Activation = str | nn.Module | type[nn.Module]  # a key of `ACTIVATIONS`, or torch's module of the same function
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "elu": functional.elu,
}


def find_activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function that a name, a module or its class stands for.

    Raises:
        ConfigError: it is none of `ACTIVATIONS`.
    """
    return ACTIVATIONS[activation_name(activation)]
