"""Fully connected networks, and the choice of an encoder for an observation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation, check_norm_type, find_activation, with_norm
from ding_lite.model.dict_encoder import DictEncoder, ObsShape
from ding_lite.model.image import ConvEncoder
from ding_lite.model.named_encoder import named_encoder, no_encoder
from ding_lite.utils.activation import activation_name
from ding_lite.utils.registry import ConfigError, EncoderChoice

ActionShape = int | Sequence[int]  # a number, also as the only one of a list; or the numbers of several choices
HybridShape = Mapping[str, Any]  # an `ActionShape` for each of `action_type_shape` and `action_args_shape`


class MLP(nn.ModuleList):
    """Linear layers, each followed by the activation.

    If `output` is set, the MLP is the head of a network: its last layer has no activation, and under autocast all its
    layers still compute in the type of their parameters. In bfloat16, with 8 bits of precision, the values of two
    actions would often be rounded to the same number.

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
        if self._output and torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self._run(x.to(next(self.parameters()).dtype))
        return self._run(x)

    def _run(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self):
            x = self._activation(layer(x)) if index < self._num_hidden else layer(x)
        return x


def create_encoder(
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: Activation,
    encoder: EncoderChoice = None,
    norm_type: str | None = None,
) -> nn.Module:
    """Return a fully connected encoder for vectors, a convolutional one for images, or a `DictEncoder`.

    Args:
        obs_shape: length of a vector, or (channels, height, width) of an image, or a dict of shapes.
        hidden_size_list: sizes of the layers, see `MLP` and `ConvEncoder`; the last one is the number of features.
            Without layers, vectors are the features themselves.
        activation: see `Activation`.
        encoder: name, or `type` and options, of another encoder, see `named_encoder`.
        norm_type: normalisation of the dense layers, see `with_norm`.

    Raises:
        ConfigError: the activation, the encoder or the normalisation is unknown, or the shape is that of neither a
            vector nor an image.
    """
    check_norm_type(norm_type)
    activation = activation_name(activation)
    if encoder is not None:
        return named_encoder(encoder, obs_shape, hidden_size_list, activation, create_encoder, norm_type)
    if isinstance(obs_shape, Mapping):
        return DictEncoder(obs_shape, hidden_size_list, activation, create_encoder, norm_type)
    shape = [obs_shape] if isinstance(obs_shape, int) else list(obs_shape)
    if len(shape) == 1:
        return MLP([shape[0], *hidden_size_list], activation, norm_type=norm_type)
    if len(shape) == 3:
        return ConvEncoder(shape, hidden_size_list, activation, norm_type=norm_type)
    raise no_encoder(obs_shape)


def single_size(action_shape: ActionShape | HybridShape, of: str = "") -> int:
    """Return an `action_shape` that is a number, or a list of one number, as this number.

    Args:
        action_shape: the shape in the config.
        of: whose shape it is, for the message.

    Raises:
        ConfigError: it is another shape.
    """
    sizes = action_shape if isinstance(action_shape, list | tuple) else [action_shape]
    if len(sizes) != 1 or not isinstance(sizes[0], Integral):  # NumPy's integers are too
        raise ConfigError(f"policy.model.action_shape{of} must be a whole number, got {action_shape}.")
    return int(sizes[0])
