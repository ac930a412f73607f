"""The names of activations, for what a config file or a user's code may contain."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from torch import nn

from ding_lite.model.mlp import ACTIVATIONS
from ding_lite.utils.activation import NAMES, activation_name, is_activation
from ding_lite.utils.registry import ConfigError


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("gelu", "gelu"),
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.Tanh, "tanh"),
        (nn.Tanh(), "tanh"),
        (nn.GELU(), "gelu"),
        (nn.ELU, "elu"),
        (nn.ELU(), "elu"),
    ],
)
def test_a_name_a_module_and_its_class_are_the_same(value: Any, name: str) -> None:
    assert activation_name(value) == name
    assert is_activation(value) == (not isinstance(value, str))


def test_every_name_is_one_of_a_function() -> None:
    assert list(NAMES.values()) == list(ACTIVATIONS)


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ("tan", r"'tan'\. Did you mean 'tanh'\?"),
        (nn.ELU(alpha=0.5), r"ELU\(alpha=0\.5\)"),
        (nn.GELU(approximate="tanh"), r"GELU\(approximate='tanh'\)"),
        (nn.SELU, r"<class 'torch\.nn\.modules\.activation\.SELU'>"),
        (nn.MultiheadAttention, "<class .*MultiheadAttention'>"),  # needs arguments, so it must not be created
        (nn.Linear(1, 1), r"Linear\("),
        (None, "None"),
    ],
)
def test_another_one_is_a_line_that_lists_the_names(value: Any, got: str) -> None:
    with pytest.raises(ConfigError, match=rf"^a\.b must be one of relu, tanh, gelu, elu, silu, got {got}") as caught:
        activation_name(value, "a.b")
    assert "\n" not in str(caught.value)


def test_it_does_not_import_torch() -> None:
    code = "import sys; import ding_lite.utils.activation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
