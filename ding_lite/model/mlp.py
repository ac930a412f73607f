"""Fully connected networks, their activation functions, and the normalisation before them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ding_lite.model.arguments import check_choice
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
    """Return a layer, followed by the normalisation of its `size` outputs, which precedes the activation.

    'LN' is layer normalisation (Ba et al. 2016, arXiv:1607.06450); None: the layer itself.
    """
    check_norm_type(norm_type)
    return layer if norm_type is None else nn.Sequential(layer, nn.LayerNorm(size))


def check_norm_type(norm_type: str | None) -> None:
    """Check `policy.model.norm_type`."""
    own = "Its statistics of a batch would differ between ranks: use 'LN', layer normalisation of each sample."
    check_choice("norm_type", norm_type, (None, "LN"), elsewhere={"BN": own})


class PreNormBlock(nn.Module):
    """A residual block of two linear layers f and g: x + g(activation(f(LayerNorm(x))))."""

    def __init__(self, size: int, activation: Activation) -> None:
        super().__init__()
        self.norm, self.one, self.two = nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        for layer in (self.one, self.two):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self._activation = find_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(self._activation(self.one(self.norm(x))))


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
        residual: the hidden layers are those of SimBa (Lee et al. 2024, arXiv:2410.09754) instead: a linear layer, a
            `PreNormBlock` for each further size, and layer normalisation. All their sizes are equal.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Activation = "relu",
        output: bool = False,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
        norm_type: str | None = None,
        residual: bool = False,
    ) -> None:
        hidden = sizes[: len(sizes) - output]
        if residual:
            layers: list[nn.Module] = [linear(*hidden[:2]), *(PreNormBlock(size, activation) for size in hidden[2:])]
            nn.init.orthogonal_(cast("Tensor", layers[0].weight))
            nn.init.zeros_(cast("Tensor", layers[0].bias))
            layers.append(nn.LayerNorm(hidden[-1]))
        else:
            layers = [with_norm(linear(*pair), pair[1], norm_type) for pair in itertools.pairwise(hidden)]
        super().__init__([*layers, linear(*sizes[-2:])] if output else layers)
        self._activation = find_activation(activation)
        self._output, self._num_hidden = output, 0 if residual else len(layers)  # layers with the activation after them

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


class PairEmbedding(nn.Module):
    """Two networks of dense layers with ReLU, which embed the halves of pairs for a contrastive loss.

    Args:
        input_size: F, features of a half.
        encode_shape: E, features of an embedding.
        heads: H and K, numbers of embeddings of each half.
    """

    def __init__(self, input_size: int, encode_shape: int = 64, heads: Sequence[int] = (1, 1)) -> None:
        super().__init__()
        if len(heads) != 2:
            raise ConfigError(f"policy.aux_model.heads: expected two numbers such as [1, 1], got {list(heads)}.")
        self._encode_shape = encode_shape
        self.x_encoder, self.y_encoder = (MLP([input_size, 128, 128, number * encode_shape]) for number in heads)

    def forward(self, x_BF: Tensor, y_BF: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings `[B, H, E]` and `[B, K, E]` of the halves of B pairs."""
        size = (-1, self._encode_shape)
        return self.x_encoder(x_BF).unflatten(-1, size), self.y_encoder(y_BF).unflatten(-1, size)
