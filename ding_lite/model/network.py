"""Encoders, which turn observations into features, and heads, which turn features into values.

Shapes: B samples, A discrete actions, H hidden features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.grad import conv2d_input

from ding_lite.utils.registry import ConfigError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "elu": functional.elu,
}
KERNEL_SIZES, STRIDES = (8, 4, 3), (4, 2, 1)  # Mnih et al. 2015, doi:10.1038/nature14236


class NoisyLinear(nn.Module):
    """Linear layer with factorised Gaussian noise on its weights (Fortunato et al. 2018, arXiv:1706.10295, eq. 10-11).

    Training mode draws noise for each sample of the batch, so that environments explore apart; evaluation mode uses the
    means alone.
    """

    def __init__(self, in_features: int, out_features: int, sigma0: float = 0.5) -> None:
        super().__init__()
        bound, sigma = 1 / math.sqrt(in_features), sigma0 / math.sqrt(in_features)
        self.weight_mu = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma))
        self.bias_mu = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma))

    def forward(self, x: Tensor) -> Tensor:
        mean = functional.linear(x, self.weight_mu, self.bias_mu)
        if not self.training:
            return mean
        size_out, size_in = self.weight_mu.shape
        noise_in, noise_out = (_signed_sqrt(x.new_empty(len(x), size).normal_()) for size in (size_in, size_out))
        # (sigma * outer(noise_out, noise_in)) x for each sample, without a weight matrix for each.
        return mean + noise_out * functional.linear(x * noise_in, self.weight_sigma, self.bias_sigma)


def _signed_sqrt(x: Tensor) -> Tensor:
    return x.sign() * x.abs().sqrt()


class MLP(nn.ModuleList):
    """Linear layers of the given sizes, each followed by the activation; the last one not, if it is an `output`."""

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        output: bool = False,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        super().__init__([linear(*pair) for pair in itertools.pairwise(sizes)])
        self._activation = ACTIVATIONS[activation]
        self._num_hidden = len(sizes) - 1 - output

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self):
            x = self._activation(layer(x)) if index < self._num_hidden else layer(x)
        return x


class _DenseByConvolution(torch.autograd.Function):
    """A dense layer over an image, as a convolution where that is faster on a CPU: all but the weight's gradient."""

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
    """Flatten `[B, C, H, W]` to `[B, H * W * C]`, a view if the memory format is channels_last."""
    return x.permute(0, 2, 3, 1).flatten(1)


class ImageDense(nn.Conv2d):
    """The dense layer after the convolutions: `[B, C, H, W]` to `[B, out]`, a kernel of the image's own size."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and x.dtype == torch.float32:
            return _DenseByConvolution.apply(x, self.weight, self.bias)
        return functional.linear(_pixels_first(x), _pixels_first(self.weight), self.bias)


class ConvEncoder(nn.ModuleList):
    """Images `[B, C, H, W]` to features `[B, hidden_size_list[-1]]`: three convolutions and a dense layer.

    uint8 images are scaled to [0, 1] here, so that they stay bytes everywhere else.
    """

    def __init__(self, obs_shape: Sequence[int], hidden_size_list: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        if len(hidden_size_list) not in (3, 4):
            raise ConfigError(
                "policy.model.encoder_hidden_size_list for images must be three convolutions' channels and a dense "
                f"layer's size, like [32, 64, 64, 512], got {list(hidden_size_list)}."
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
        first, *rest = self
        assert isinstance(first, nn.Conv2d)
        if x.dtype == torch.uint8:
            # 0 to 255 are exact in bfloat16 too. Scaling the weight is the same as scaling the image, and less work.
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


class DiscreteHead(MLP):
    """Features `[B, hidden_size]` to action values `[B, A]`, through `layer_num` hidden layers."""

    def __init__(
        self, hidden_size: int, output_size: int, layer_num: int = 1, activation: str = "relu", noise: bool = False
    ) -> None:
        linear = NoisyLinear if noise else nn.Linear
        super().__init__([hidden_size] * (layer_num + 1) + [output_size], activation, output=True, linear=linear)


class DuelingHead(nn.Module):
    """Action values from a state value and advantages.

    Q = V + A - mean(A) (Wang et al. 2016, arXiv:1511.06581, eq. 9).
    """

    def __init__(
        self, hidden_size: int, output_size: int, layer_num: int = 1, activation: str = "relu", noise: bool = False
    ) -> None:
        super().__init__()
        self.A = DiscreteHead(hidden_size, output_size, layer_num, activation, noise)
        self.V = DiscreteHead(hidden_size, 1, layer_num, activation, noise)

    def forward(self, x: Tensor) -> Tensor:
        advantage_BA = self.A(x)
        return self.V(x) + advantage_BA - advantage_BA.mean(dim=-1, keepdim=True)
