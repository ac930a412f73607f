"""Fully connected layers, the part of every network here that is no convolution, and the choice of an encoder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ding_lite.model.activations import ACTIVATIONS
from ding_lite.model.image import ConvEncoder
from ding_lite.utils.registry import ConfigError


class MLP(nn.ModuleList):
    """Linear layers, each followed by the activation.

    An MLP that is an `output` is the head of a network: its last layer has no activation, and all its layers run in
    the type of their parameters even under autocast. bfloat16 has 8 bits of precision, so the values of two actions
    would often be rounded to the same number.

    Args:
        sizes: number of input features, then the size of each layer.
        activation: a key of `ACTIVATIONS`.
        output: whether this is the head of a network.
        linear: creates a layer from its input and output size.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        output: bool = False,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        super().__init__([linear(*pair) for pair in itertools.pairwise(sizes)])
        self._activation = ACTIVATIONS[activation]
        self._output, self._num_hidden = output, len(sizes) - 1 - output

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., sizes[-1]]` for features `[..., sizes[0]]`."""
        if self._output and torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self._run(x.to(next(self.parameters()).dtype))
        return self._run(x)

    def _run(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self):
            x = self._activation(layer(x)) if index < self._num_hidden else layer(x)
        return x


def create_encoder(obs_shape: int | Sequence[int], hidden_size_list: Sequence[int], activation: str) -> nn.Module:
    """Return the encoder that fits the observation: fully connected for vectors, convolutional for `(C, H, W)`."""
    if activation not in ACTIVATIONS:
        raise ConfigError(f"policy.model.activation must be one of {', '.join(ACTIVATIONS)}, got '{activation}'.")
    shape = [obs_shape] if isinstance(obs_shape, int) else list(obs_shape)
    if len(shape) == 1:
        return MLP([shape[0], *hidden_size_list], activation)
    if len(shape) == 3:
        return ConvEncoder(shape, hidden_size_list, activation)
    raise ConfigError(f"policy.model.obs_shape must be a length or (channels, height, width), got {obs_shape}.")
