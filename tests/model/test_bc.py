from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import BC


def test_a_discrete_policy_equals_plain_layers() -> None:
    model: Any = BC(4, 3, encoder_hidden_size_list=[8, 6], actor_head_layer_num=2, actor_head_hidden_size=5)
    obs, (first, second) = torch.randn(5, 4), model.encoder
    one, two, last = model.head
    plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), one, nn.ReLU(), two, nn.ReLU(), last)
    torch.testing.assert_close(model(obs), {"logit": plain(obs)})
    assert [tuple(layer.weight.shape) for layer in model.head] == [(5, 6), (5, 5), (3, 5)]


@pytest.mark.parametrize("space", ["continuous", "regression"])
def test_a_continuous_action_is_within_bounds_or_not(space: str) -> None:
    torch.manual_seed(0)
    bounded = BC(4, 2, space, [8, 6])
    free = BC(4, 2, space, [8, 6], bound_type=None)
    free.load_state_dict(bounded.state_dict())
    obs = 100 * torch.randn(5, 4)
    assert free(obs)["action"].abs().max() > 1
    torch.testing.assert_close(bounded(obs), {"action": free(obs)["action"].tanh()})


def test_images_are_observations_too() -> None:
    model = BC((4, 36, 36), 3, encoder_hidden_size_list=[8, 8, 8, 16]).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's hints lack it
    assert model(torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8))["logit"].shape == (2, 3)
