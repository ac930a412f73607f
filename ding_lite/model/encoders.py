"""Encoders that `policy.model.encoder` can name, besides `ConvEncoder`: dense residual blocks, and IMPALA's network.

Shapes: B samples, F features, C channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from ding_lite.model.activations import Activation, find_activation, with_norm
from ding_lite.model.image import ImageConv, ImageDense
from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import ENCODER_REGISTRY, ConfigError


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
        res_block: one linear layer, then a residual block (see `DenseBlock`) for each number of the list. The numbers
            must be equal.
        activation: see `Activation`.
        norm_type: 'LN': layer normalisation after each linear layer, before the activation; None: none.
        layer_norm: True is another name of norm_type='LN'.

    Raises:
        ConfigError: `res_block` with layers of several sizes.
    """

    obs_dims: ClassVar[int] = 1

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        hidden_size_list: Sequence[int],
        res_block: bool = False,
        activation: Activation = "relu",
        norm_type: str | None = None,
        *,
        layer_norm: bool = False,
    ) -> None:
        if res_block and len(set(hidden_size_list)) > 1:
            raise ConfigError(
                "policy.model.encoder.res_block=True needs layers of one size: set "
                f"policy.model.encoder_hidden_size_list to equal numbers, got {list(hidden_size_list)}."
            )
        sizes = [obs_shape if isinstance(obs_shape, int) else obs_shape[0], *hidden_size_list]
        norm_type = "LN" if layer_norm else norm_type
        super().__init__(sizes[:2] if res_block else sizes, activation, norm_type=norm_type)
        if res_block:  # `MLP` puts the activation after the first layer only; a block ends with its own
            size = sizes[1]
            for _ in hidden_size_list:
                one, two = (with_norm(nn.Linear(size, size), size, norm_type) for _ in range(2))
                self.append(DenseBlock(one, two, activation))


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


class IMPALAConvEncoder(nn.Module):
    """Maps images to features by the residual network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3).

    Each section consists of a 3 x 3 convolution, 3 x 3 max pooling with stride 2, and residual blocks (see
    `ConvBlock`). Then come the activation, a dense layer, and the activation again. Borders are padded by one pixel, so
    a section halves height and width, rounded up.

    Args:
        obs_shape: C, H, W.
        channels: channels of each section. The paper's are the defaults, here and below.
        outsize: size of the dense layer.
        scale_ob: what uint8 images are divided by. Images of floats are left as they are.
        nblock: residual blocks of each section.
        activation: see `Activation`.
        norm_type: 'LN': layer normalisation after the dense layer, before the activation; None: none.
    """

    obs_dims: ClassVar[int] = 3

    def __init__(
        self,
        obs_shape: Sequence[int],
        channels: Sequence[int] = (16, 32, 32),
        outsize: int = 256,
        scale_ob: float = 255.0,
        nblock: int = 2,
        *,
        activation: Activation = "relu",
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self._activation = find_activation(activation)
        _, height, width = obs_shape
        first = ImageConv(obs_shape[0], channels[0], 3, padding=1)
        first.scale = scale_ob
        sections: list[nn.Module] = []
        for before, size in zip((obs_shape[0], *channels), channels, strict=False):
            sections.append(nn.Conv2d(before, size, 3, padding=1) if sections else first)
            sections.append(nn.MaxPool2d(3, stride=2, padding=1))
            sections += [ConvBlock(size, activation) for _ in range(nblock)]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.sections = nn.Sequential(*sections)
        self.dense = with_norm(ImageDense(channels[-1], outsize, (height, width)), outsize, norm_type)

    def forward(self, x: Tensor) -> Tensor:
        """Return features `[B, outsize]` for images `[B, C, H, W]`."""
        return self._activation(self.dense(self._activation(self.sections(x))))


@ENCODER_REGISTRY.register("impala")
class IMPALAEncoder(IMPALAConvEncoder):
    """`IMPALAConvEncoder` with the sizes of all layers in one list, as `policy.model` gives them.

    Args:
        obs_shape: C, H, W.
        hidden_size_list: channels of three sections, then the size of the dense layer. With three numbers, the dense
            layer has the last section's size. The paper's are 16, 32, 32, 256.
        activation: see `Activation`; the paper's is 'relu'.
        nblock: residual blocks of each section.
        norm_type: 'LN': layer normalisation after the dense layer, before the activation; None: none.

    Raises:
        ConfigError: the list does not have three or four numbers.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int],
        activation: Activation = "relu",
        nblock: int = 2,
        norm_type: str | None = None,
    ) -> None:
        if len(hidden_size_list) not in (3, 4):
            raise ConfigError(
                "policy.model.encoder_hidden_size_list for the encoder 'impala' must be the channels of three sections "
                f"and the size of a dense layer, like [16, 32, 32, 256], got {list(hidden_size_list)}."
            )
        sizes = (hidden_size_list[:3], hidden_size_list[-1])
        super().__init__(obs_shape, *sizes, nblock=nblock, activation=activation, norm_type=norm_type)
