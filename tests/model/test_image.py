"""Encoders of images, their options, and which encoder fits an observation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import ConvEncoder, image


def nature(encoder: Any) -> nn.Sequential:
    """The encoder's function from torch's own layers, with its weights."""
    convolutions = list(encoder)[:-1]
    dense: Any = encoder[-1]
    linear = nn.Linear(dense.weight[0].numel(), dense.out_channels)
    linear.weight.data.copy_(dense.weight.data.contiguous().flatten(1))
    linear.bias.data.copy_(dense.bias.data)
    layers: list[nn.Module] = [layer for convolution in convolutions for layer in (convolution, nn.ReLU())]
    return nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("dtype", "convolve"), [(torch.float32, True), (torch.float32, False), (torch.float64, True)])
def test_conv_encoder_equals_the_nature_network_in_values_and_gradients(
    dtype: torch.dtype, convolve: bool, memory_format: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "CONVOLVE_DENSE", convolve)
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


def plain(encoder: Any, strides: list[int], paddings: list[int], x: torch.Tensor) -> torch.Tensor:
    """The function of an encoder with layer normalisation, from torch's functions and its weights."""
    for (layer, norm), stride, padding in zip(list(encoder)[:-1], strides, paddings, strict=True):
        x = nn.functional.conv2d(x, layer.weight, layer.bias, stride, padding)
        mean, var = x.mean((1, 2, 3), keepdim=True), x.var((1, 2, 3), keepdim=True, unbiased=False)
        x = (x - mean) / (var + 1e-5).sqrt() * norm.weight[:, None, None] + norm.bias[:, None, None]
        x = x.relu()
    dense = encoder[-1]
    return (x.flatten(1) @ dense.weight.flatten(1).t() + dense.bias).relu()


@pytest.mark.parametrize("bytes_", [False, True])
def test_other_kernels_strides_paddings_and_layer_normalisation(bytes_: bool) -> None:
    # heights: (20 + 2 - 4) / 2 + 1 = 10, (10 - 3) / 1 + 1 = 8; widths: 12, 6, 4
    encoder: Any = ConvEncoder([3, 20, 12], [5, 6, 7], "relu", [4, 3], [2, 1], [1, 0], layer_norm=True)
    with torch.no_grad():
        for _, norm in list(encoder)[:-1]:
            norm.weight.normal_()
            norm.bias.normal_()
    assert tuple(encoder[-1].weight.shape) == (7, 6, 8, 4)
    x = torch.randint(256, (2, 3, 20, 12), dtype=torch.uint8)
    expected = plain(encoder, [2, 1], [1, 0], x / 255)
    torch.testing.assert_close(encoder(x if bytes_ else x / 255), expected, atol=1e-5, rtol=1e-4)
