"""Fully connected layers, and the precision of those that are heads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.model import DQN, MLP, PG, VAC, ConvEncoder
from ding_lite.model.arguments import single_size
from ding_lite.model.encoders import IMPALAEncoder
from ding_lite.model.mlp import with_norm
from ding_lite.utils import ENCODER_REGISTRY, ConfigError
from tests.model.models import MODELS, backward, build, run

BATCH = 4096


def test_layers_are_linear_with_an_activation_after_each_but_an_outputs_last() -> None:
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


def normalized(x: Tensor) -> Tensor:
    """As in arXiv:1607.06450, eq. 3: the mean and the variance are those of a sample's features."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def test_a_layer_is_normalised_before_the_activation_but_a_heads_last_one_never() -> None:
    mlp: Any = MLP([3, 5, 2], "tanh", output=True, norm_type="LN")
    x = torch.randn(7, 3)
    (first, _), last = mlp
    torch.testing.assert_close(mlp(x), last(torch.tanh(normalized(first(x)))))
    assert isinstance(last, nn.Linear)
    assert with_norm(last, 2, None) is last


def test_without_it_layers_have_their_usual_names_and_it_draws_nothing() -> None:
    states = []
    for norm_type in (None, "LN"):
        torch.manual_seed(0)
        states.append(DQN(4, 2, norm_type=norm_type).state_dict())
    assert list(states[0])[:2] == ["encoder.0.weight", "encoder.0.bias"]
    assert torch.equal(states[0]["encoder.0.weight"], states[1]["encoder.0.0.weight"])  # no random number more


@pytest.mark.parametrize("name", MODELS)
def test_every_model_normalises_its_encoders_and_heads(name: str) -> None:
    model = build(name, obs_shape=5, encoder_hidden_size_list=[6, 4], norm_type="LN", activation="tanh")
    mlps = [module for module in model.modules() if isinstance(module, MLP)]
    layers: list[Any] = [layer for mlp in mlps for layer in list(mlp)[: mlp._num_hidden]]
    assert len(layers) > 2  # those of an encoder, and of a head
    assert all(isinstance(layer[-1], nn.LayerNorm) for layer in layers)
    assert sum(isinstance(module, nn.LayerNorm) for module in model.modules()) - 2 * (name == "drqn") == len(layers)
    backward(run(model, torch.randn(3, 5)))
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("kind", [ConvEncoder, IMPALAEncoder])
def test_of_an_images_encoder_the_dense_layer_is_normalised(kind: type[nn.Module]) -> None:
    encoder: Any = kind([3, 44, 44], [4, 4, 4, 8], norm_type="LN")
    norms = [module for module in encoder.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.normalized_shape for norm in norms] == [(8,)]
    dense = encoder.dense if kind is IMPALAEncoder else encoder[-1]
    assert dense[1] is norms[0]
    assert encoder(torch.rand(2, 3, 44, 44)).shape == (2, 8)


class Plain(nn.Linear):
    """An encoder of one's own without the argument."""

    def __init__(self, obs_shape: Any, hidden_size_list: list[int], activation: str) -> None:
        super().__init__(obs_shape[0], hidden_size_list[-1])


def test_an_encoders_option_takes_precedence_and_ones_own_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODER_REGISTRY, "norm_test_plain", Plain)
    for encoder in ({"type": "fc", "norm_type": None}, "norm_test_plain"):
        model: Any = DQN(4, 2, [6], encoder=encoder, norm_type="LN")
        assert not any(isinstance(module, nn.LayerNorm) for module in model.encoder.modules())
        assert any(isinstance(module, nn.LayerNorm) for module in model.head.modules())
