"""The model of IQN."""

from __future__ import annotations

import math

import torch

from ding_lite.model import IQN, NoisyLinear, QuantileHead


def test_the_head_is_the_papers_equation() -> None:
    head = QuantileHead(3, 2, layer_num=1, quantile_embedding_size=4)
    x, tau = torch.randn(2, 3), torch.rand(2, 5)
    result = head(x, tau)
    assert result.shape == (5, 2, 2)
    for sample in range(2):
        for place in range(5):
            cosines = torch.tensor([math.cos(math.pi * e * tau[sample, place].item()) for e in (1, 2, 3, 4)])
            phi = (head.phi.weight @ cosines + head.phi.bias).relu()
            torch.testing.assert_close(result[place, sample], head.Q((x[sample] * phi)[None])[0])


def test_quantiles_of_given_probabilities() -> None:
    model = IQN(4, 3, [8, 6], num_quantiles=5)
    obs, tau = torch.randn(2, 4), torch.rand(2, 7)
    output = model(obs, tau=tau)
    assert (output["q"].shape, output["quantiles"].shape) == ((7, 2, 3), (7, 2, 1))
    torch.testing.assert_close(output["quantiles"][..., 0].t(), tau)
    torch.testing.assert_close(output["logit"], output["q"].mean(0))
    alone = model(obs[1:], tau=tau[1:, 3:4])  # a quantile depends on its own probability and sample only
    torch.testing.assert_close(alone["q"][0, 0], output["q"][3, 1])


def test_without_probabilities_they_are_the_middles_of_equal_parts() -> None:
    model = IQN(4, 3, [8, 6], num_quantiles=5).double()
    output = model(torch.randn(2, 4, dtype=torch.float64))
    middles = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
    torch.testing.assert_close(output["quantiles"][:, 1, 0], middles)


def test_images_and_noisy_layers() -> None:
    model = IQN((4, 36, 36), 3, [8, 8, 8, 16], num_quantiles=5, noise=True)
    output = model(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))
    assert (output["logit"].shape, output["q"].shape) == ((2, 3), (5, 2, 3))
    noisy = [name for name, layer in model.named_modules() if isinstance(layer, NoisyLinear)]
    assert noisy == ["head.Q.0", "head.Q.1"]
