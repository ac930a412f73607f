"""A declaration is read from the class that has the key, its bases, and what a user wrote in either form."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any, ClassVar

import pytest
from easydict import EasyDict
from torch import nn

from ding_lite.model import mlp
from ding_lite.utils.key import (
    ACTIVATIONS,
    METHODS,
    SECTION,
    ConfigDict,
    Groups,
    Key,
    activation_name,
    declared_keys,
    default_values,
    is_activation,
)
from ding_lite.utils.registry import ConfigError


class Base:
    config: ClassVar[dict[str, Any]] = dict(
        rate=Key(0.1, "step size", low=0, high=1),
        learn=dict(size=Key(None, "samples; None: all", type=int, low=1), kind=Key("a", "which", choices=("a", "b"))),
        free=Key({}, "anything"),
        other=dict(),
    )


class Derived(Base):
    config: ClassVar[dict[str, Any]] = dict(rate=1, learn=dict(size=8), other=dict(new="x"), free={"a": {"b": 1}})


OF_A = dict(learn=dict(a=Key(1, "of a"), shared=Key(2, "of both")), deep=dict(er=dict(b=Key(3, "of a alone"))))
OF_B = dict(learn=dict(shared=Key(2, "of both"), c=Key(4, "of b")), top=Key(5, "of b"))
OF_C = dict(learn=dict(c=Key(6, "of c")))


class HasA(Base):
    key_groups: ClassVar[Groups] = (OF_A,)
    config: ClassVar[dict[str, Any]] = dict(learn=dict(a=10, shared=20), deep=dict(er=dict(b=30)))


class Inherits(HasA):
    config: ClassVar[dict[str, Any]] = dict(learn=dict(a=11, mine=Key("x", "own")))


class HasB(Inherits):
    key_groups: ClassVar[Groups] = (OF_B,)
    config: ClassVar[dict[str, Any]] = dict(top=50)


class HasC(HasB):
    key_groups = (OF_A, OF_B, OF_C)


def test_a_plain_value_changes_the_default_and_keeps_the_rest() -> None:
    keys = declared_keys(Derived)
    assert (keys["rate"].default, keys["rate"].meaning, keys["rate"].high) == (1, "step size", 1)
    keys["rate"].check("rate", 0.5)  # a float, as the base says, though the default is an int
    keys["learn.size"].check("size", None)  # as the base says
    with pytest.raises(ConfigError, match=r"size: expected at least 1, got 0\. Meaning: samples; None: all\."):
        keys["learn.size"].check("size", 0)
    assert keys["free"].default == {"a": {"b": 1}}
    assert keys["other.new"] == Key("x", "")
    assert declared_keys(Base)["other"].type is SECTION


def test_a_key_whose_default_is_none_and_that_has_no_type_takes_any_value() -> None:
    for value in (None, 3, "linear", [1.5], {"a": 1}):
        Key(None, "anything").check("free", value)


def own_defaults(cls: type) -> dict[str, Any]:
    inherited = declared_keys(Base)
    keys = {path: key for path, key in declared_keys(cls).items() if path not in inherited}
    return {path: key.default for path, key in keys.items() if key.type is not SECTION}


def test_a_class_has_the_keys_of_its_groups_and_a_subclass_inherits_them() -> None:
    assert own_defaults(HasA) == {"learn.a": 10, "learn.shared": 20, "deep.er.b": 30}
    assert own_defaults(Inherits) == {**own_defaults(HasA), "learn.a": 11, "learn.mine": "x"}
    assert declared_keys(Inherits)["learn.a"] == Key(11, "of a", (int,))


def test_other_groups_of_a_subclass_replace_those_of_its_base_class() -> None:
    assert own_defaults(HasB) == {"learn.shared": 20, "learn.mine": "x", "learn.c": 4, "top": 50}
    assert declared_keys(HasB).keys() >= declared_keys(Base).keys()
    assert "deep.er" not in declared_keys(HasB)
    # keys of `HasA` return with the defaults of their group, and those of the last group that has a key apply
    assert own_defaults(HasC) == {**own_defaults(HasB), "learn.a": 1, "deep.er.b": 3, "learn.c": 6}


def test_default_values_are_nested_copies() -> None:
    values = default_values(declared_keys(Base))
    assert values == dict(rate=0.1, learn=dict(size=None, kind="a"), free={}, other={})
    values["free"]["a"] = 1
    assert default_values(Base.config)["free"] == {}


@pytest.mark.parametrize(
    ("key", "allowed", "refused", "message"),
    [
        (Key(0.5, "x", low=0, high=1), (0, 1, 0.5), (-0.1, 1.1, math.nan), "expected a number from 0 to 1"),
        (Key(0.5, "x", above=0, below=1), (1e-9, 0.9), (0, 1, math.nan), "expected a number between 0 and 1, got"),
        (Key(0.5, "x", above=0, high=1), (1,), (0, 1.5), "expected a number above 0, at most 1, got"),
        (Key(0.5, "x", above=1), (math.inf,), (1, math.nan), "expected a number above 1, got"),
        (Key(0.5, "x", below=1), (-math.inf,), (1,), "expected below 1, got"),
        (Key(0.5, "x"), (math.inf,), (math.nan,), "expected a number, got nan"),
        (Key(3, "x", low=1), (2**31 - 1,), (2**31,), "expected a number from 1 to 2147483647, got 2147483648"),
        (Key([1], "x", low=1), ([1, 2], []), ([1, 0],), "expected at least 1, got 0"),
        (Key(None, "x", choices=(None, "a", "b")), (None, "a"), ("c", 1), "must be 'a', 'b' or None, got"),
        (Key(1, "x", choices=(1, 2)), (2,), (True, 1.0), "must be 1 or 2, got"),
        (Key(None, "x", type=float), (None, 1, 0.5), ("a", True), "expected float or None, got"),
        (Key(False, "x"), (True,), (1, None), "expected bool, got"),
    ],
)
def test_what_is_not_allowed_is_said_with_what_is(
    key: Key, allowed: tuple[Any, ...], refused: tuple[Any, ...], message: str
) -> None:
    for value in allowed:
        key.check("a.b", value)
    for value in refused:
        with pytest.raises(ConfigError, match=rf"^a\.b:? {message}.* Meaning: x\.$"):
            key.check("a.b", value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("gelu", "gelu"),
        (nn.ReLU(), "relu"),
        (nn.ReLU(inplace=True), "relu"),
        (nn.Tanh, "tanh"),
        (nn.ELU(), "elu"),
    ],
)
def test_a_name_a_module_and_its_class_are_the_same(value: Any, name: str) -> None:
    assert activation_name(value) == name
    assert is_activation(value) == (not isinstance(value, str))


def test_keys_with_names_of_methods_hide_none_at_any_level() -> None:
    names = {name: number for number, name in enumerate(sorted(name for name in METHODS if name[0] != "_"))}
    user = {"items": 1, "a": names, "b": [names]}
    cfg = ConfigDict(user)
    others: list[Any] = [cfg, ConfigDict(EasyDict(user)), copy.deepcopy(cfg), pickle.loads(pickle.dumps(cfg))]
    for other in others:
        assert other == user
        assert list(other.a.items()) == list(names.items())
        assert list(other.b[0].values()) == list(names.values())
        assert all(callable(getattr(other.a, name)) for name in names)
        assert other.pop("items") == 1
        assert other.a.pop("pop") == names["pop"]
        other.a = {"get": 2, "rest": 3}
        assert (other.a.get("get"), other.a.rest, other.a.pop("rest"), other.a) == (2, 3, 3, {"get": 2})
        with pytest.raises(AttributeError):
            _ = other.a.rest


def test_every_name_is_one_of_a_function() -> None:
    assert list(ACTIVATIONS.values()) == list(mlp.ACTIVATIONS)


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
    with pytest.raises(ConfigError, match=rf"^a\.b must be one of relu, tanh, gelu, elu, silu, got {got}"):
        activation_name(value, "a.b")
