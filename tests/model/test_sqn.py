from __future__ import annotations

import torch

from ding_lite.model import DQN, SQN


def test_the_two_networks_are_independent_and_the_first_acts() -> None:
    model, obs = SQN(4, 3, [8], dueling=False), torch.randn(5, 4)
    output = model(obs)
    assert output["q_value"].shape == (2, 5, 3)
    assert torch.equal(output["logit"], output["q_value"][0])
    assert torch.equal(output["q_value"][1], model.q1(obs)["logit"])
    assert not torch.equal(output["q_value"][0], output["q_value"][1])
    output["q_value"][0].sum().backward()
    assert all(parameter.grad is not None for parameter in model.q0.parameters())
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.q1.parameters())


def test_its_arguments_are_those_of_dqn() -> None:
    sizes = [parameter.shape for parameter in DQN(4, 3, [16, 8], True, head_layer_num=2).parameters()]
    assert [parameter.shape for parameter in SQN(4, 3, [16, 8], True, head_layer_num=2).q1.parameters()] == sizes
