"""Encoders of images, and which encoder fits an observation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import ConvEncoder, create_encoder
from ding_lite.utils import ConfigError


def nature(encoder: ConvEncoder) -> nn.Sequential:
    """The encoder's function from torch's own layers, with its weights."""
    convolutions = [module for module in encoder if type(module) is nn.Conv2d]
    dense: Any = encoder[-1]
    linear = nn.Linear(dense.weight[0].numel(), dense.out_channels)
    linear.weight.data.copy_(dense.weight.data.contiguous().flatten(1))
    linear.bias.data.copy_(dense.bias.data)
    layers: list[nn.Module] = [layer for convolution in convolutions for layer in (convolution, nn.ReLU())]
    return nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conv_encoder_equals_the_nature_network_in_values_and_gradients(
    dtype: torch.dtype, memory_format: torch.memory_format
) -> None:
    torch.manual_seed(0)
    encoder = ConvEncoder((4, 84, 84), [32, 64, 64, 512]).to(dtype)
    reference = nature(encoder).to(dtype)
    encoder.to(memory_format=memory_format)  # type: ignore[call-overload]  # torch's hints lack it
    x = torch.rand(3, 4, 84, 84, dtype=dtype)
    tolerance: dict[str, Any] = dict(atol=1e-5, rtol=1e-4) if dtype == torch.float32 else dict(atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(encoder(x), reference(x), **tolerance)
    shared = list(encoder.parameters())[:6]
    encoder(x).square().sum().backward()
    gradients = [p.grad.clone() for p in encoder.parameters() if p.grad is not None]
    for parameter in shared:
        parameter.grad = None
    reference(x).square().sum().backward()
    expected = [p.grad for p in reference.parameters() if p.grad is not None]
    for gradient, value in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient.contiguous().view(value.shape), value, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uint8_images_are_scaled_to_one(dtype: torch.dtype) -> None:
    encoder = ConvEncoder((4, 84, 84), [8, 8, 8, 16]).to(dtype)
    x = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(encoder(x), encoder(x.to(dtype) / 255))


def test_bfloat16_is_close_to_float32() -> None:
    torch.manual_seed(0)
    encoder = ConvEncoder((4, 84, 84), [32, 64, 64, 512])
    x = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    expected = encoder(x)
    with torch.autocast("cpu", torch.bfloat16):
        features = encoder(x)
    assert features.dtype == torch.bfloat16
    torch.testing.assert_close(features.float(), expected, atol=0.02, rtol=0.02)  # 8 bits of mantissa


@pytest.mark.parametrize(
    ("obs_shape", "sizes", "activation", "message"),
    [
        ([4, 84], [32], "relu", "obs_shape"),
        ([4, 20, 20], [32, 64, 64, 512], "relu", "too small"),
        ([4, 84, 84], [128, 64], "relu", "encoder_hidden_size_list"),
        (4, [32], "relus", "activation"),
    ],
)
def test_what_cannot_be_built_is_one_clear_line(
    obs_shape: int | list[int], sizes: list[int], activation: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        create_encoder(obs_shape, sizes, activation)
