"""Fully connected layers, and the precision of those that are heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ding_lite.model import DQN, MLP, PG, VAC
from ding_lite.model.arguments import single_size
from ding_lite.utils import ConfigError

BATCH = 4096


def test_layers_are_linear_with_an_activation_after_each_but_an_outputs_last() -> None:
    torch.manual_seed(0)
    for output in (False, True):
        mlp, x = MLP([3, 5, 2], "tanh", output), torch.randn(7, 3)
        first, second = (layer for layer in mlp if isinstance(layer, nn.Linear))
        hidden = torch.tanh(nn.functional.linear(x, first.weight, first.bias))
        expected = nn.functional.linear(hidden, second.weight, second.bias)
        torch.testing.assert_close(mlp(x), expected if output else torch.tanh(expected))


def test_one_number_may_be_numpys_or_in_a_list_and_nothing_else_may() -> None:
    right: list[Any] = [3, [3], (3,), np.int64(3), [np.int64(3)]]
    for shape in right:
        assert (single_size(shape), type(single_size(shape))) == (3, int)
    wrong: list[Any] = [[], [2, 3], 2.0, "3", None, {"action_type_shape": 3}]
    for shape in wrong:
        with pytest.raises(ConfigError, match=r"policy\.model\.action_shape of X must be a whole number, got "):
            single_size(shape, " of X")


def test_encoders_may_compute_in_bfloat16_and_heads_never_do() -> None:
    x = torch.randn(4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert MLP([8, 4])(x).dtype == torch.bfloat16
        assert MLP([8, 4], output=True)(x).dtype == torch.float32
        assert MLP([8, 4], output=True)(x.bfloat16()).dtype == torch.float32
        assert torch.is_autocast_enabled("cpu")  # a head leaves it on for what follows


def solved(last: nn.Linear) -> None:
    """Make actions nearly alike, as in a solved CartPole: values of about 500 that differ by a few tenths."""
    with torch.no_grad():
        last.weight.mul_(2.0)
        last.bias.fill_(500.0)


@pytest.mark.parametrize("kind", ["dqn", "dueling", "pg", "vac"])
def test_under_bfloat16_actions_are_those_of_float32_and_none_are_ties(kind: str) -> None:
    torch.manual_seed(0)
    if kind in ("dqn", "dueling"):
        model: Any = DQN(4, 2, [128, 128, 64], dueling=kind == "dueling")
        head = model.head if kind == "dqn" else model.head.V
        solved(head[-1])
    else:
        model = PG(4, 2) if kind == "pg" else VAC(4, 2)
        solved((model.head if kind == "pg" else model.actor_head)[-1])
    obs = torch.randn(BATCH, 4)
    exact = model(obs)["logit"]
    with torch.autocast("cpu", torch.bfloat16):
        coarse = model(obs)["logit"]
    assert (coarse[:, 0] == coarse[:, 1]).float().mean() < 1e-3
    assert (coarse.argmax(-1) == exact.argmax(-1)).float().mean() >= 0.99
