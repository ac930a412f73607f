"""Noisy layers: what noise they add, when they draw it, and noise that is given."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ding_lite.model import DQN, NoisyLinear
from ding_lite.model.noisy import draw_noise, exploring, given_noise, noisy_layers


def test_noisy_layer_is_random_in_training_and_its_mean_in_evaluation() -> None:
    layer = NoisyLinear(5, 3)
    x = torch.ones(1, 5)
    assert not torch.equal(layer(x), layer(x))
    mean = layer(x.expand(20_000, 5)).mean(0, keepdim=True)
    layer.eval()
    torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.weight_mu, layer.bias_mu))
    torch.testing.assert_close(mean, layer(x), atol=0.05, rtol=0)


def test_noise_is_factorised_and_drawn_for_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_sample_has_the_same_noise_in_all_leading_dimensions() -> None:
    layer, x = NoisyLinear(3, 2), torch.randn(5, 4, 3)  # 5 rows of each of 4 samples
    torch.manual_seed(0)
    drawn = layer(x)
    torch.manual_seed(0)
    with given_noise(layer, {"": layer.draw_noise(4)}):
        for row in range(5):
            torch.testing.assert_close(drawn[row], layer(x[row]))


def test_exploring_ends_after_an_error_too() -> None:
    model = DQN(4, 3, [16, 8], noise=True).eval()
    with pytest.raises(RuntimeError, match="inside"), exploring(list(noisy_layers(model).values())):
        raise RuntimeError("inside")
    assert torch.equal(model(torch.ones(1, 4))["logit"], model(torch.ones(1, 4))["logit"])


@pytest.mark.parametrize("training", [True, False])
def test_given_noise_is_what_the_layers_would_have_drawn(training: bool) -> None:
    model, x = DQN(4, 3, [16, 8], noise=True), torch.randn(5, 4)
    torch.manual_seed(1)
    drawn = model(x)["logit"]
    torch.manual_seed(1)
    noise = draw_noise(model, 5)
    model.train(training)
    with given_noise(model, noise):
        assert torch.equal(model(x)["logit"], drawn)
        assert torch.equal(model(x)["logit"], drawn)
    assert torch.equal(model(x)["logit"], model(x)["logit"]) != training
