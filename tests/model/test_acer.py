from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import ACER
from ding_lite.utils import MODEL_REGISTRY, ConfigError


def test_both_modes_are_plain_layers_that_share_nothing() -> None:
    assert MODEL_REGISTRY.find("acer") is ACER
    model: Any = ACER(4, 3, [8, 6], actor_head_hidden_size=5, critic_head_layer_num=0)
    obs = torch.randn(7, 4)
    for name, mode, key in (("actor", "compute_actor", "logit"), ("critic", "compute_critic", "q_value")):
        network = getattr(model, name)
        head = network.head if name == "actor" else network.heads[0]
        layers = [*network.encoder, *head]
        sizes = [layer.out_features for layer in layers]
        assert sizes == ([8, 6, 5, 3] if name == "actor" else [8, 6, 3])
        plain = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))[:-1]
        torch.testing.assert_close(model(obs, mode=mode)[key], plain(obs))
    with pytest.raises(ValueError, match="compute_actor, compute_critic, got 'compute_value'"):
        model(obs, mode="compute_value")


def test_images_are_observations_too() -> None:
    model = ACER((4, 36, 36), 3, [8, 8, 8, 16])
    image = torch.randint(256, (5, 4, 36, 36), dtype=torch.uint8)
    assert model(image, mode="compute_critic")["q_value"].shape == (5, 3)
    assert model(image, mode="compute_actor")["logit"].shape == (5, 3)


def test_an_action_shape_that_is_no_number_is_an_error_of_one_line() -> None:
    shape: Any = [2, 2]
    with pytest.raises(ConfigError, match="action_shape must be a whole number"):
        ACER(4, shape)
