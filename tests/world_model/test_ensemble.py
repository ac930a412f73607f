"""The ensemble: its members against plain networks in NumPy, bounds, standardised inputs, the likelihood by hand."""

from __future__ import annotations

import math

import numpy as np
import torch

from ding_lite.world_model.ensemble import Ensemble, nll

INPUT_BI = torch.tensor([[1.0, -2.0, 5.0], [3.0, 4.0, 5.0], [-1.0, 0.5, 5.0], [0.0, 2.0, 5.0]])


def create(num_members: int = 3) -> Ensemble:
    torch.manual_seed(0)
    network = Ensemble(num_members, [3, 8, 8, 2], num_elites=2)
    for bias in network.biases:
        torch.nn.init.normal_(bias)
    network.scale.update(INPUT_BI)
    return network


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def test_each_member_is_a_plain_network_of_standardised_inputs() -> None:
    network, inputs = create(), INPUT_BI.double().numpy()
    mean_EBF, logvar_EBF = network(INPUT_BI.expand(3, -1, -1))
    deviation = inputs.std(0)
    deviation[2] = 1.0  # a constant is not divided by its deviation, which is 0
    for member in range(3):
        x = (inputs - inputs.mean(0)) / deviation
        for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            x = x @ weight[member].detach().double().numpy() + bias[member].detach().double().numpy()
            x = x / (1 + np.exp(-x)) if layer < 2 else x
        logvar = 0.5 - softplus(0.5 - x[:, 2:])
        np.testing.assert_allclose(mean_EBF[member].detach().numpy(), x[:, :2], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(logvar_EBF[member].detach().numpy(), -10 + softplus(logvar + 10), rtol=1e-4)


def test_chosen_members_compute_alone() -> None:
    network, inputs = create(), INPUT_BI.expand(3, -1, -1)
    every, chosen = network(inputs), network(inputs[:2], torch.tensor([2, 0]))
    for one, other in zip(every, chosen, strict=True):
        torch.testing.assert_close(one[[2, 0]], other)


def test_log_variances_keep_their_bounds_and_their_gradient() -> None:
    network = create()
    for value in (-1000.0, 1000.0):
        network.biases[-1].data[..., 2:] = value
        _, logvar = network(INPUT_BI.expand(3, -1, -1))
        bound = 0.5 if value > 0 else -10.0
        torch.testing.assert_close(logvar, torch.full_like(logvar, bound), atol=1e-3, rtol=0)  # log(1 + e^-10.5) < 1e-4
        assert logvar.min() >= -10.0
        assert logvar.max() <= 0.5 + 1e-4


def test_the_likelihood_by_hand() -> None:
    """Member 0: ((2 - 0)^2 / 4 + log 4 + (1 - 1)^2 + 0) / 2. Member 1: (3^2 + 0 + 0 + log 4) / 2."""
    mean = torch.tensor([[[0.0, 1.0]], [[-1.0, 1.0]]])
    logvar = torch.tensor([[[math.log(4.0), 0.0]], [[0.0, math.log(4.0)]]])
    target = torch.tensor([[[2.0, 1.0]], [[2.0, 1.0]]])
    expected = (1.0 + math.log(4.0)) / 2 + (9.0 + math.log(4.0)) / 2
    assert math.isclose(nll(mean, logvar, target).item(), expected, rel_tol=1e-6)


def test_a_members_gradient_does_not_depend_on_the_number_of_members() -> None:
    network = create()
    target = torch.randn(3, 4, 2)
    gradients = []
    for members in (slice(None), torch.tensor([1])):
        mean, logvar = network(INPUT_BI.expand(3, -1, -1)[members], members)
        (gradient,) = torch.autograd.grad(nll(mean, logvar, target[members]), network.weights[0])
        gradients.append(gradient[1])
    torch.testing.assert_close(*gradients)
