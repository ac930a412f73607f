"""The models of categorical distributions."""

from __future__ import annotations

import pytest
import torch

from ding_lite.model import C51DQN, DistributionHead, NoisyLinear, RainbowDQN


def test_the_values_are_the_means_of_the_distributions() -> None:
    output = C51DQN(4, 3, [8, 6], v_min=-1.0, v_max=5.0, n_atom=7)(torch.randn(2, 4))
    assert output["distribution"].shape == (2, 3, 7)
    torch.testing.assert_close(output["distribution"].sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(output["log_distribution"].exp(), output["distribution"])
    atoms = torch.tensor([-1.0, 0, 1, 2, 3, 4, 5])
    torch.testing.assert_close(output["logit"], (output["distribution"] * atoms).sum(-1))


def test_images_are_observations_too() -> None:
    model = C51DQN((4, 36, 36), 3, [8, 8, 8, 16], n_atom=5)
    output = model(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))
    assert (output["logit"].shape, output["distribution"].shape) == ((2, 3), (2, 3, 5))


def test_noisy_layers_are_in_the_head() -> None:
    model = C51DQN(4, 3, [8, 6], noise=True)
    assert {name.partition(".")[0] for name, layer in model.named_modules() if isinstance(layer, NoisyLinear)} == {
        "head"
    }


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


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("distributional", [True, False])
def test_the_parts_of_rainbow_can_be_left_out(dueling: bool, noise: bool, distributional: bool) -> None:
    model = RainbowDQN(4, 3, [8, 6], n_atom=5, dueling=dueling, noise=noise, distributional=distributional)
    output = model(torch.zeros(2, 4))
    assert output["logit"].shape == (2, 3)
    assert ("distribution" in output) == distributional
    assert any(name.startswith("head.V") for name, _ in model.named_parameters()) == dueling
    assert any(isinstance(layer, NoisyLinear) for layer in model.modules()) == noise
