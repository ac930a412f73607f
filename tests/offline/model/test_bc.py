from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ding_lite.model import BC, ContinuousBC, DiscreteBC
from ding_lite.utils import ConfigError


@pytest.mark.parametrize("space", ["continuous", "regression"])
def test_a_continuous_action_is_within_bounds_or_not(space: str) -> None:
    bounded = BC(4, 2, space, [8, 6])
    free = BC(4, 2, space, [8, 6], bound_type=None)
    free.load_state_dict(bounded.state_dict())
    obs = 100 * torch.randn(5, 4)
    assert free(obs)["action"].abs().max() > 1
    torch.testing.assert_close(bounded(obs), {"action": free(obs)["action"].tanh()})


def test_continuous_bc_passes_vectors_to_its_head() -> None:
    model: Any = ContinuousBC([4], [2], actor_head_hidden_size=5, actor_head_layer_num=1)
    assert [tuple(layer.weight.shape) for layer in model.head] == [(5, 4), (5, 5), (2, 5)]
    obs, (one, two, last) = torch.randn(7, 4), model.head
    plain = nn.Sequential(one, nn.ReLU(), two, nn.ReLU(), last, nn.Tanh())
    torch.testing.assert_close(model(obs), {"action": plain(obs)})
    encoded: Any = ContinuousBC(4, 2, encoder_hidden_size_list=[8, 6], bound_type=None)
    assert encoded(obs)["action"].shape == (7, 2)
    assert tuple(encoded.head[0].weight.shape) == (64, 6)


def test_each_kind_of_action_has_a_model_of_its_own() -> None:
    with pytest.raises(ConfigError, match="action_space must be one of discrete, got 'continuous'"):
        DiscreteBC(4, 2, action_space="continuous")
    with pytest.raises(ConfigError, match="action_space must be one of continuous, regression, got 'discrete'"):
        ContinuousBC(4, 2, action_space="discrete")
    with pytest.raises(ConfigError, match=r"continuous, regression, got 'reparameterization'\. Here .* 'regression'"):
        ContinuousBC(4, 2, action_space="reparameterization")
    with pytest.raises(ConfigError, match=r"got 'hybrid'\. No model imitates hybrid actions"):
        ContinuousBC(4, {"action_type_shape": 2, "action_args_shape": 1}, action_space="hybrid")  # type: ignore[arg-type]
