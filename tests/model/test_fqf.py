"""The model of FQF."""

from __future__ import annotations

import math

import torch

from ding_lite.model import FQF


def test_the_intervals_fill_the_unit_interval_and_are_almost_equal_at_first() -> None:
    output = FQF(4, 3, [8, 6], num_quantiles=5)(torch.randn(2, 4))
    ends = output["quantiles"]
    assert ends.shape == (2, 6)
    torch.testing.assert_close(ends, torch.linspace(0, 1, 6).expand(2, -1), atol=0.05, rtol=0)
    torch.testing.assert_close(ends[:, [0, 5]], torch.tensor([[0.0, 1.0]] * 2))
    torch.testing.assert_close(output["quantiles_hats"], (ends[:, 1:] + ends[:, :-1]) / 2)
    torch.testing.assert_close(output["entropies"], torch.full((2, 1), math.log(5)), atol=0.02, rtol=0)


def test_values_are_means_of_quantiles_by_the_lengths_of_the_intervals() -> None:
    model = FQF(4, 3, [8, 6], num_quantiles=3)
    model.fraction.bias.data = torch.tensor([0.5, 0.25, 0.25]).log()
    model.fraction.weight.data.zero_()
    output = model(torch.randn(2, 4), boundaries=True)
    torch.testing.assert_close(output["quantiles"][0], torch.tensor([0.0, 0.5, 0.75, 1.0]))
    assert (output["q"].shape, output["q_tau_i"].shape) == ((2, 3, 3), (2, 2, 3))
    q = output["q"]
    torch.testing.assert_close(output["logit"], 0.5 * q[:, 0] + 0.25 * q[:, 1] + 0.25 * q[:, 2])
    assert "q_tau_i" not in model(torch.zeros(2, 4))


def test_quantiles_at_the_ends_and_in_the_middles_are_of_one_function() -> None:
    model, obs = FQF(4, 3, [8, 6], num_quantiles=3), torch.randn(2, 4)
    output = model(obs, boundaries=True)
    feature = model.encoder(obs)
    torch.testing.assert_close(output["q"].transpose(0, 1), model.head(feature, output["quantiles_hats"]))
    torch.testing.assert_close(output["q_tau_i"].transpose(0, 1), model.head(feature, output["quantiles"][:, 1:-1]))


def test_the_gradients_of_intervals_and_quantiles_do_not_mix() -> None:
    model = FQF(4, 3, [8, 6], num_quantiles=3)
    output = model(torch.randn(2, 4), boundaries=True)
    assert not output["q_tau_i"].requires_grad
    of_intervals = output["quantiles"].square().sum() + output["entropies"].sum()
    of_intervals.backward(retain_graph=True)
    with_gradient = {name.partition(".")[0] for name, each in model.named_parameters() if each.grad is not None}
    assert with_gradient == {"fraction"}
    model.zero_grad()
    (output["q"].sum() + output["logit"].sum()).backward()
    with_gradient = {name.partition(".")[0] for name, each in model.named_parameters() if each.grad is not None}
    assert with_gradient == {"encoder", "head"}


def test_images_are_observations_too() -> None:
    output = FQF((4, 36, 36), 3, [8, 8, 8, 16], num_quantiles=5)(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))
    assert (output["logit"].shape, output["q"].shape) == ((2, 3), (2, 5, 3))
