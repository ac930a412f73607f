"""Encoders that `policy.model.encoder` can name, besides `ConvEncoder`: dense residual blocks, and IMPALA's network.

Shapes: B samples, F features, C channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from ding_lite.model.activations import Activation, find_activation
from ding_lite.model.image import ImageConv, ImageDense
from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import ENCODER_REGISTRY, ConfigError


def normalized_linear(size_in: int, size_out: int) -> nn.Module:
    """Return a linear layer followed by layer normalisation (Ba et al. 2016, arXiv:1607.06450)."""
    return nn.Sequential(nn.Linear(size_in, size_out), nn.LayerNorm(size_out))


class DenseBlock(nn.Module):
    """A residual block of two linear layers f and g: activation(x + g(activation(f(x)))).

    Args:
        one: f.
        two: g, which returns as many features as f takes.
        activation: see `Activation`.
    """

    def __init__(self, one: nn.Module, two: nn.Module, activation: Activation) -> None:
        super().__init__()
        self.one, self.two, self._activation = one, two, find_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return self._activation(x + self.two(self._activation(self.one(x))))


@ENCODER_REGISTRY.register("fc")
class FCEncoder(MLP):
    """Maps vectors to features by dense layers.

    Args:
        obs_shape: the length of a vector, as a number or as a list.
        hidden_size_list: sizes of the layers.
        activation: see `Activation`.
        res_block: one linear layer, then a residual block (see `DenseBlock`) for each number of the list. The numbers
            must be equal.
        layer_norm: layer normalisation after each linear layer, before the activation.

    Raises:
        ConfigError: `res_block` with layers of several sizes.
    """

    obs_dims: ClassVar[int] = 1

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        hidden_size_list: Sequence[int],
        activation: Activation = "relu",
        res_block: bool = False,
        layer_norm: bool = False,
    ) -> None:
        if res_block and len(set(hidden_size_list)) > 1:
            raise ConfigError(
                "policy.model.encoder.res_block=True needs layers of one size: set "
                f"policy.model.encoder_hidden_size_list to equal numbers, got {list(hidden_size_list)}."
            )
        sizes = [obs_shape if isinstance(obs_shape, int) else obs_shape[0], *hidden_size_list]
        linear = normalized_linear if layer_norm else nn.Linear
        super().__init__(sizes[:2] if res_block else sizes, activation, linear=linear)
        if res_block:  # `MLP` puts the activation after the first layer only; a block ends with its own
            size = sizes[1]
            self.extend(DenseBlock(linear(size, size), linear(size, size), activation) for _ in hidden_size_list)


class ConvBlock(nn.Module):
    """A residual block of two 3 x 3 convolutions f and g: x + g(activation(f(activation(x)))).

    Args:
        channels: C.
        activation: see `Activation`.
    """

    def __init__(self, channels: int, activation: Activation) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self._activation = find_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(self._activation(self.one(self._activation(x))))


@ENCODER_REGISTRY.register("impala")
class IMPALAConvEncoder(nn.Module):
    """Maps images to features by the residual network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3).

    Each of three sections consists of a 3 x 3 convolution, 3 x 3 max pooling with stride 2, and residual blocks (see
    `ConvBlock`). Then come the activation, a dense layer, and the activation again. Borders are padded by one pixel, so
    a section halves height and width, rounded up.

    Args:
        obs_shape: C, H, W.
        hidden_size_list: channels of the three sections, then the size of the dense layer. With three numbers, the
            dense layer has the last section's size. The paper's are 16, 32, 32, 256.
        activation: see `Activation`; the paper's is 'relu'.
        nblock: residual blocks of each section.

    Raises:
        ConfigError: the list does not have three or four numbers.
    """

    obs_dims: ClassVar[int] = 3

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int] = (16, 32, 32, 256),
        activation: Activation = "relu",
        nblock: int = 2,
    ) -> None:
        super().__init__()
        if len(hidden_size_list) not in (3, 4):
            raise ConfigError(
                "policy.model.encoder_hidden_size_list for the encoder 'impala' must be the channels of three sections "
                f"and the size of a dense layer, like [16, 32, 32, 256], got {list(hidden_size_list)}."
            )
        self._activation = find_activation(activation)
        channels, height, width = obs_shape
        sections: list[nn.Module] = []
        for size in hidden_size_list[:3]:
            convolution = ImageConv if not sections else nn.Conv2d
            sections += [convolution(channels, size, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            sections += [ConvBlock(size, activation) for _ in range(nblock)]
            channels, height, width = size, (height + 1) // 2, (width + 1) // 2
        self.sections = nn.Sequential(*sections)
        self.dense = ImageDense(channels, hidden_size_list[-1], (height, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return features `[B, hidden_size_list[-1]]` for images `[B, C, H, W]`; uint8 images are scaled to [0, 1]."""
        return self._activation(self.dense(self._activation(self.sections(x))))
