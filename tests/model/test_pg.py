from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ding_lite.model import PG

HYBRID = {"action_type_shape": 3, "action_args_shape": 2}


def test_a_discrete_policy_equals_plain_layers() -> None:
    model: Any = PG(4, 3, encoder_hidden_size_list=[8, 6], head_layer_num=2)
    assert [tuple(layer.weight.shape) for layer in model.head] == [(6, 6), (6, 6), (3, 6)]
    obs, (first, second) = torch.randn(5, 4), model.encoder
    one, two, last = model.head
    plain = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), one, nn.ReLU(), two, nn.ReLU(), last)
    output = model(obs)
    assert list(output) == ["logit"]
    torch.testing.assert_close(output["logit"], plain(obs))


def test_continuous_and_hybrid_policies_return_a_gaussian_with_sigma_one_at_first() -> None:
    obs = torch.randn(5, 4)
    logit = PG(4, 2, "continuous")(obs)["logit"]
    assert logit["mu"].shape == (5, 2)
    assert torch.equal(logit["sigma"], torch.ones(5, 2))
    logit = PG(4, HYBRID, "hybrid")(obs)["logit"]
    assert (logit["action_type"].shape, logit["action_args"]["mu"].shape) == ((5, 3), (5, 2))
