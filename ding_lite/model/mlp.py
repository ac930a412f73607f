"""Fully connected networks, their activation functions, and the normalisation before them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.utils.key import activation_name
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
    """Return the function that a name, a module or its class stands for."""
    return ACTIVATIONS[activation_name(activation)]


def with_norm(layer: nn.Module, size: int, norm_type: str | None) -> nn.Module:
    """Return a layer followed by the normalisation of its output, which precedes the activation.

    Args:
        layer: a layer without activation.
        size: number of its output features.
        norm_type: 'LN': layer normalisation (Ba et al. 2016, arXiv:1607.06450); None: the layer itself.
    """
    check_norm_type(norm_type)
    return layer if norm_type is None else nn.Sequential(layer, nn.LayerNorm(size))


def check_norm_type(norm_type: str | None) -> None:
    """Check `policy.model.norm_type`."""
    if norm_type not in (None, "LN"):
        raise ConfigError(
            f"policy.model.norm_type must be None or 'LN', got {norm_type!r}: statistics of a batch would differ "
            "between ranks. Use 'LN', layer normalisation, whose statistics are those of each sample."
        )


class MLP(nn.ModuleList):
    """Linear layers, each followed by the activation.

    If `output` is set, the MLP is the head of a network: its last layer has no activation, and under autocast it still
    computes in the type of its parameters. In bfloat16, with 8 bits of precision, the values of two actions would often
    be rounded to the same number.

    Args:
        sizes: number of input features, then the size of each layer.
        activation: see `Activation`.
        output: whether this is the head of a network.
        linear: function of the input and output size that creates a layer.
        norm_type: normalisation before each activation, see `with_norm`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Activation = "relu",
        output: bool = False,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
        norm_type: str | None = None,
    ) -> None:
        super().__init__([linear(*pair) for pair in itertools.pairwise(sizes)])
        self._activation = find_activation(activation)
        self._output, self._num_hidden = output, len(sizes) - 1 - output
        for index in range(self._num_hidden):
            self[index] = with_norm(self[index], sizes[index + 1], norm_type)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., sizes[-1]]` for features `[..., sizes[0]]`."""
        layers = list(self)
        last = layers.pop() if self._output else None
        for index, layer in enumerate(layers):
            x = self._activation(layer(x)) if index < self._num_hidden else layer(x)
        if last is None:
            return x
        if torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return last(x.to(next(last.parameters()).dtype))
        return last(x)
