from __future__ import annotations

import pytest
import torch
from torch import nn

from ding_lite.model import DQN, ConvEncoder, DiscreteHead, DuelingHead, NoisyLinear, create_encoder
from ding_lite.utils import ConfigError


def nature(encoder: ConvEncoder) -> nn.Sequential:
    """The encoder's function from torch's own layers, with its weights."""
    convolutions = [module for module in encoder if type(module) is nn.Conv2d]
    dense = encoder[-1]
    linear = nn.Linear(dense.weight[0].numel(), dense.out_channels)
    linear.weight.data.copy_(dense.weight.data.contiguous().flatten(1))
    linear.bias.data.copy_(dense.bias.data)
    layers = [layer for convolution in convolutions for layer in (convolution, nn.ReLU())]
    return nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_conv_encoder_equals_the_nature_network_in_values_and_gradients(dtype, memory_format):
    torch.manual_seed(0)
    encoder = ConvEncoder((4, 84, 84), [32, 64, 64, 512]).to(dtype)
    reference = nature(encoder).to(dtype)
    encoder.to(memory_format=memory_format)
    x = torch.rand(3, 4, 84, 84, dtype=dtype)
    tolerance = dict(atol=1e-5, rtol=1e-4) if dtype == torch.float32 else dict(atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(encoder(x), reference(x), **tolerance)
    shared = list(encoder.parameters())[:6]
    encoder(x).square().sum().backward()
    gradients = [p.grad.clone() for p in encoder.parameters()]
    for parameter in shared:
        parameter.grad = None
    reference(x).square().sum().backward()
    expected = [p.grad for p in reference.parameters()]
    for gradient, value in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient.contiguous().view(value.shape), value, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uint8_images_are_scaled_to_one(dtype):
    encoder = ConvEncoder((4, 84, 84), [8, 8, 8, 16]).to(dtype)
    x = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(encoder(x), encoder(x.to(dtype) / 255))


def test_bfloat16_is_close_to_float32():
    torch.manual_seed(0)
    encoder = ConvEncoder((4, 84, 84), [32, 64, 64, 512])
    x = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8)
    expected = encoder(x)
    with torch.autocast("cpu", torch.bfloat16):
        features = encoder(x)
    assert features.dtype == torch.bfloat16
    torch.testing.assert_close(features.float(), expected, atol=0.02, rtol=0.02)  # 8 bits of mantissa


def test_dueling_head_by_hand():
    head = DuelingHead(1, 2, layer_num=0)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    head.A[-1].bias.data = torch.tensor([3.0, 1.0])
    head.V[-1].bias.data = torch.tensor([10.0])
    assert head(torch.zeros(1, 1)).tolist() == [[11.0, 9.0]]  # 10 + 3 - 2, 10 + 1 - 2


def test_noisy_layer_is_random_in_training_and_its_mean_in_evaluation():
    torch.manual_seed(0)
    layer = NoisyLinear(5, 3)
    x = torch.ones(1, 5)
    assert not torch.equal(layer(x), layer(x))
    mean = layer(x.expand(20_000, 5)).mean(0, keepdim=True)
    layer.eval()
    torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight_mu, layer.bias_mu))
    torch.testing.assert_close(mean, layer(x), atol=0.05, rtol=0)


def test_noise_is_factorised_and_drawn_for_each_sample(monkeypatch):
    layer = NoisyLinear(2, 2)
    noise_in, noise_out = torch.tensor([[1.0, -4.0], [9.0, 0.0]]), torch.tensor([[4.0, 1.0], [-1.0, 4.0]])
    drawn = iter((noise_in, noise_out))
    monkeypatch.setattr(torch.Tensor, "normal_", lambda self: self.copy_(next(drawn)))
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    result = layer(x)
    for row in range(2):  # eq. 10-11 with f(x) = sign(x) sqrt(|x|), a weight matrix for each sample
        f_in, f_out = (noise[row].sign() * noise[row].abs().sqrt() for noise in (noise_in, noise_out))
        weight = layer.weight_mu + layer.weight_sigma * torch.outer(f_out, f_in)
        torch.testing.assert_close(result[row], weight @ x[row] + layer.bias_mu + layer.bias_sigma * f_out)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("noise", [True, False])
def test_dqn_returns_a_value_for_each_action(dueling, noise):
    model = DQN(4, 3, [16, 8], dueling=dueling, noise=noise)
    assert model(torch.zeros(5, 4))["logit"].shape == (5, 3)
    assert any(isinstance(module, NoisyLinear) for module in model.modules()) == noise


def test_layer_count_of_the_head():
    assert sum(isinstance(layer, nn.Linear) for layer in DiscreteHead(4, 2, layer_num=2)) == 3


@pytest.mark.parametrize(
    ("obs_shape", "sizes", "activation", "message"),
    [
        ([4, 84], [32], "relu", "obs_shape"),
        ([4, 20, 20], [32, 64, 64, 512], "relu", "too small"),
        ([4, 84, 84], [128, 64], "relu", "encoder_hidden_size_list"),
        (4, [32], "relus", "activation"),
    ],
)
def test_what_cannot_be_built_is_one_clear_line(obs_shape, sizes, activation, message):
    with pytest.raises(ConfigError, match=message):
        create_encoder(obs_shape, sizes, activation)
