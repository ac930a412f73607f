"""The Q-networks that estimate distributions."""

from __future__ import annotations

import math

import torch

from ding_lite.model import C51DQN, FQF, IQN, DistributionHead, QuantileHead


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


def test_the_values_are_the_means_of_the_distributions() -> None:
    output = C51DQN(4, 3, [8, 6], v_min=-1.0, v_max=5.0, n_atom=7)(torch.randn(2, 4))
    assert output["distribution"].shape == (2, 3, 7)
    torch.testing.assert_close(output["distribution"].sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(output["log_distribution"].exp(), output["distribution"])
    atoms = torch.tensor([-1.0, 0, 1, 2, 3, 4, 5])
    torch.testing.assert_close(output["logit"], (output["distribution"] * atoms).sum(-1))


def test_the_logits_of_a_dueling_head_by_hand() -> None:
    head = DistributionHead(1, 2, layer_num=0, n_atom=2, v_min=0.0, v_max=1.0, dueling=True)
    for parameter in head.parameters():
        torch.nn.init.zeros_(parameter)
    assert head.V is not None
    head.A[-1].bias.data = torch.tensor([1.0, 4.0, 3.0, 0.0])  # of action 0, then of action 1
    head.V[-1].bias.data = torch.tensor([10.0, 20.0])
    # The means over actions are 2 and 2: the logits are 10 - 1 and 20 + 2, and 10 + 1 and 20 - 2.
    expected = torch.tensor([[9.0, 22.0], [11.0, 18.0]]).softmax(-1)
    torch.testing.assert_close(head(torch.zeros(1, 1))["distribution"][0], expected)
