"""The encoder of images: three convolutions and a dense layer.

Shapes: B samples, C channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.grad import conv2d_input

from ding_lite.model.activations import ACTIVATIONS
from ding_lite.utils.registry import ConfigError

KERNEL_SIZES, STRIDES = (8, 4, 3), (4, 2, 1)  # Mnih et al. 2015, doi:10.1038/nature14236


class _DenseByConvolution(torch.autograd.Function):
    """A dense layer over an image, computed as a convolution.

    On a CPU this is faster than a matrix product, except for the gradient of the weight.
    """

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
        if x.device.type == "cpu" and x.dtype == torch.float32:
            return _DenseByConvolution.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]  # torch's
        return functional.linear(_pixels_first(x), _pixels_first(self.weight), self.bias)


class ConvEncoder(nn.ModuleList):
    """Maps images to features, with the kernels and strides of Mnih et al. 2015.

    Args:
        obs_shape: C, H, W.
        hidden_size_list: channels of the three convolutions, then the size of the dense layer. With three numbers, the
            dense layer has the last convolution's size.
        activation: a key of `ACTIVATIONS`.

    Raises:
        ConfigError: the list has another length, or the images are too small.
    """

    def __init__(self, obs_shape: Sequence[int], hidden_size_list: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        if len(hidden_size_list) not in (3, 4):
            raise ConfigError(
                "policy.model.encoder_hidden_size_list for images must be the channels of three convolutions and "
                f"the size of a dense layer, like [32, 64, 64, 512], got {list(hidden_size_list)}."
            )
        self._activation = ACTIVATIONS[activation]
        channels, height, width = obs_shape
        for size_out, kernel, stride in zip(hidden_size_list, KERNEL_SIZES, STRIDES, strict=False):
            self.append(nn.Conv2d(channels, size_out, kernel, stride))
            channels, height, width = size_out, (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if min(height, width) < 1:
                raise ConfigError(f"policy.model.obs_shape {list(obs_shape)} is too small: images need 36 x 36 pixels.")
        self.append(ImageDense(channels, hidden_size_list[-1], (height, width)))

    def forward(self, x: Tensor) -> Tensor:
        """Return features `[B, hidden_size_list[-1]]` for images `[B, C, H, W]`; uint8 images are scaled to [0, 1]."""
        first, *rest = self
        assert isinstance(first, nn.Conv2d)
        if x.dtype == torch.uint8:
            # bfloat16 represents 0 to 255 exactly. Scaling the weight equals scaling the image, with less work.
            weight = first.weight * (1 / 255)
            autocast = torch.is_autocast_enabled(x.device.type)
            x = x.contiguous(memory_format=torch.channels_last)
            x = x.to(torch.get_autocast_dtype(x.device.type) if autocast else weight.dtype)
            x = self._activation(functional.conv2d(x, weight, first.bias, first.stride))
        else:
            x = self._activation(first(x))
        for layer in rest:
            x = self._activation(layer(x))
        return x
