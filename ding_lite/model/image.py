"""The encoder of images: convolutions and a dense layer.

Shapes: B samples, C channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.grad import conv2d_input

from ding_lite.model.mlp import Activation, find_activation, with_norm
from ding_lite.utils.registry import ENCODER_REGISTRY, ConfigError

KERNEL_SIZES, STRIDES = (8, 4, 3), (4, 2, 1)  # Mnih et al. 2015, doi:10.1038/nature14236
# With AVX512, a convolution is faster than a matrix product.
CONVOLVE_DENSE = torch.backends.cpu.get_cpu_capability() == "AVX512"


class _DenseByConvolution(torch.autograd.Function):
    """A dense layer over an image as a convolution, but not for the gradient of the weight, see `CONVOLVE_DENSE`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return functional.conv2d(x, weight, bias).flatten(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = conv2d_input(x.shape, weight, grad[:, :, None, None])
        grad_weight = grad.t() @ _pixels_first(x)
        size_out, channels, height, width = weight.shape
        return grad_x, grad_weight.view(size_out, height, width, channels).permute(0, 3, 1, 2), grad.sum(0)


def _pixels_first(x: Tensor) -> Tensor:
    """Return `[B, C, H, W]` flattened to `[B, H * W * C]`; it is a view if the memory format is channels_last."""
    return x.permute(0, 2, 3, 1).flatten(1)


class ImageDense(nn.Conv2d):
    """The dense layer after the convolutions, stored as a convolution whose kernel has the size of the image."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, out]` for `[B, C, H, W]`."""
        if CONVOLVE_DENSE and x.device.type == "cpu" and x.dtype == torch.float32:
            return _DenseByConvolution.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]  # torch's
        return functional.linear(_pixels_first(x), _pixels_first(self.weight), self.bias)


class ImageConv(nn.Conv2d):
    """The first convolution, which divides uint8 images by `scale`."""

    scale: float = 255.0

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, out, ...]` for `[B, C, H, W]`."""
        if x.dtype != torch.uint8:
            return super().forward(x)
        # bfloat16 represents 0 to 255 exactly. Scaling the weight equals scaling the image, with less work.
        weight = self.weight * (1 / self.scale)
        autocast = torch.is_autocast_enabled(x.device.type)
        x = x.contiguous(memory_format=torch.channels_last)
        x = x.to(torch.get_autocast_dtype(x.device.type) if autocast else weight.dtype)
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding)


@ENCODER_REGISTRY.register("conv")
class ConvEncoder(nn.ModuleList):
    """Maps images to features by convolutions and a dense layer, by default those of Mnih et al. 2015.

    Args:
        obs_shape: C, H, W.
        hidden_size_list: channels of the convolutions, then the size of the dense layer. Without the last number, the
            dense layer has the last convolution's size.
        activation: see `Activation`.
        kernel_size: width of each convolution's kernel, in pixels.
        stride: pixels from one place of each kernel to the next.
        padding: zeros that each convolution adds at every border; None: none.
        layer_norm: layer normalisation after each convolution, before the activation. Mean and variance are those of
            all channels and pixels of an image; each channel has a gain and a bias.
        norm_type: 'LN': layer normalisation after the dense layer, before the activation; None: none.
    """

    obs_dims: ClassVar[int] = 3

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int] = (32, 64, 64, 128),
        activation: Activation = "relu",
        kernel_size: Sequence[int] = KERNEL_SIZES,
        stride: Sequence[int] = STRIDES,
        padding: Sequence[int] | None = None,
        layer_norm: bool = False,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        padding = [0] * len(kernel_size) if padding is None else padding
        _check_lists(hidden_size_list, kernel_size, stride, padding)
        self._activation = find_activation(activation)
        channels, height, width = obs_shape
        windows = list(zip(kernel_size, stride, padding, strict=True))
        least = 1
        for kernel, step, border in reversed(windows):
            least = max(1, (least - 1) * step + kernel - 2 * border)
        if min(height, width) < least:
            raise ConfigError(
                f"policy.model.obs_shape {list(obs_shape)} is too small: with kernel_size={list(kernel_size)} and "
                f"stride={list(stride)}, images need {least} x {least} pixels. Smaller ones need smaller numbers, such "
                "as policy.model.encoder=dict(type='conv', kernel_size=[3, 3, 3], stride=[1, 1, 1])."
            )
        for size_out, (kernel, step, border) in zip(hidden_size_list, windows, strict=False):
            layer = (nn.Conv2d if len(self) else ImageConv)(channels, size_out, kernel, step, border)
            # normalising one group of all channels, see Wu and He 2018, arXiv:1803.08494
            self.append(nn.Sequential(layer, nn.GroupNorm(1, size_out)) if layer_norm else layer)
            channels, height, width = size_out, *((n + 2 * border - kernel) // step + 1 for n in (height, width))
        size = hidden_size_list[-1]
        self.append(with_norm(ImageDense(channels, size, (height, width)), size, norm_type))

    def forward(self, x: Tensor) -> Tensor:
        """Return features `[B, hidden_size_list[-1]]` for images `[B, C, H, W]`; uint8 images are scaled to [0, 1]."""
        for layer in self:
            x = self._activation(layer(x))
        return x


def _check_lists(hidden_size_list: Sequence[int], *windows: Sequence[int]) -> None:
    """Raise `ConfigError` if kernel sizes, strides, paddings and channels are not those of the same convolutions."""
    number = len(windows[0])
    if not number or {len(window) for window in windows} != {number}:
        kernels, strides, paddings = map(list, windows)
        raise ConfigError(
            "policy.model.encoder: expected one kernel_size, stride and padding for each convolution, got "
            f"kernel_size={kernels}, stride={strides}, padding={paddings}: give lists of the same length."
        )
    if len(hidden_size_list) not in (number, number + 1):
        raise ConfigError(
            f"policy.model.encoder_hidden_size_list for images must be the channels of {number} convolutions, one for "
            f"each number of encoder.kernel_size, and the size of a dense layer, like {[64] * number + [512]}, got "
            f"{list(hidden_size_list)}."
        )
