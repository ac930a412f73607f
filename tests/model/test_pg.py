from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import PG
from ding_lite.utils import MODEL_REGISTRY, ConfigError

HYBRID = {"action_type_shape": 3, "action_args_shape": 2}


def test_the_registry_knows_it() -> None:
    assert MODEL_REGISTRY.find("pg") is PG


def test_a_discrete_policy_equals_plain_layers() -> None:
    model: Any = PG(4, 3, encoder_hidden_size_list=[8, 6], head_layer_num=2)
    assert [tuple(layer.weight.shape) for layer in model.head] == [(6, 6), (6, 6), (3, 6)]
    obs, (first, second) = torch.randn(5, 4), model.encoder
    one, two, last = model.head
    plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), one, nn.ReLU(), two, nn.ReLU(), last)
    output = model(obs)
    assert list(output) == ["logit"]
    torch.testing.assert_close(output["logit"], plain(obs))


def test_the_heads_hidden_size_is_the_one_asked_for() -> None:
    model: Any = PG(4, 3, head_hidden_size=9)
    assert [tuple(layer.weight.shape) for layer in model.head] == [(9, 64), (3, 9)]


def test_continuous_and_hybrid_policies_return_a_gaussian_with_sigma_one_at_first() -> None:
    obs = torch.randn(5, 4)
    logit = PG(4, 2, "continuous")(obs)["logit"]
    assert logit["mu"].shape == (5, 2)
    assert torch.equal(logit["sigma"], torch.ones(5, 2))
    logit = PG(4, HYBRID, "hybrid")(obs)["logit"]
    assert (logit["action_type"].shape, logit["action_args"]["mu"].shape) == ((5, 3), (5, 2))


def test_images_are_observations_too() -> None:
    model = PG((4, 36, 36), 3, encoder_hidden_size_list=[8, 8, 8, 16]).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it
    assert model(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))["logit"].shape == (2, 3)


def test_an_unknown_kind_of_action_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"policy\.model\.action_space must be one of .*, got 'multi'"):
        PG(4, 3, action_space="multi")
