"""The networks of DDPG with hybrid actions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ding_lite.model import HybridQAC
from ding_lite.utils import MODEL_REGISTRY, ConfigError

SHAPE = {"action_type_shape": 3, "action_args_shape": 2}


def test_both_modes_return_the_documented_shapes() -> None:
    assert MODEL_REGISTRY.find("hybrid_qac") is HybridQAC
    model, obs = HybridQAC(4, SHAPE, twin_critic=True), torch.randn(5, 4) * 100
    output = model(obs, mode="compute_actor")
    assert {name: value.shape for name, value in output.items()} == {"logit": (5, 3), "action_args": (5, 2)}
    assert 0.5 < output["action_args"].abs().max() <= 1
    inputs = {"obs": obs, "logit": output["logit"], "action": {"action_args": output["action_args"]}}
    assert model(inputs, mode="compute_critic")["q_value"].shape == (2, 5)
    with pytest.raises(ValueError, match="compute_actor, compute_critic, got 'compute_value'"):
        model(obs, mode="compute_value")


def test_the_critic_takes_a_type_as_its_number_as_probabilities_and_as_logits() -> None:
    model, obs, args = HybridQAC(4, SHAPE), torch.randn(3, 4), torch.rand(3, 2)
    number = model.critic(obs, action={"action_type": torch.tensor([2, 0, 1]), "action_args": args})
    one_hot = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    sure = model.critic(obs, action={"action_type": one_hot, "action_args": args})
    assert torch.equal(number, sure)
    inputs = {"obs": obs, "logit": (one_hot - 1) * 1e9, "action": {"action_args": args}}  # whose softmax is one_hot
    assert torch.equal(model(inputs, mode="compute_critic")["q_value"], sure)
    doubtful = model.critic(obs, action={"action_type": torch.full((3, 3), 1 / 3), "action_args": args})
    assert not torch.allclose(doubtful, sure)


def test_the_networks_share_nothing_and_have_the_sizes_of_the_config() -> None:
    model: Any = HybridQAC(4, SHAPE, actor_head_hidden_size=8, critic_head_hidden_size=16, critic_head_layer_num=2)
    parameters = {id(parameter) for parameter in model.actor.parameters()}
    assert not parameters & {id(parameter) for parameter in model.critic.parameters()}
    for head, outputs in ((model.actor.head.action_type, 3), (model.actor.head.action_args, 2)):
        assert [(layer.in_features, layer.out_features) for layer in head] == [(4, 8), (8, 8), (8, outputs)]
    (critic,) = model.critic.network.heads  # 4 numbers of the state, 3 of the type, 2 arguments
    assert [layer.in_features for layer in critic] == [9, 16, 16, 16]


def test_images_have_an_encoder_for_each_network() -> None:
    model = HybridQAC((4, 36, 36), SHAPE, encoder_hidden_size_list=[8, 8, 8, 16])
    image = torch.randint(256, (5, 4, 36, 36), dtype=torch.uint8)
    assert model(image, mode="compute_actor")["action_args"].shape == (5, 2)
    assert model.critic.network.encoder is not model.actor.encoder


@pytest.mark.parametrize("shape", [3, [3, 2], {"action_type_shape": 3}])
def test_another_kind_of_action_is_an_error_of_one_line(shape: Any) -> None:
    expected = r"action_shape of a hybrid action must be a dict of action_type_shape and action_args_shape, got "
    with pytest.raises(ConfigError, match=expected):
        HybridQAC(4, shape)
