"""A policy reads only config keys that it declares, and asks only for keys that may be missing whether they are there.

Nothing runs: the code of the methods that a policy uses, its own and those of its base classes, is followed through the
calls from one to another, and into functions that get the config or a part of it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any, NamedTuple

import pytest
from torch import Tensor

from ding_lite.config.schema import Schema, config_schema
from ding_lite.policy import DQNPolicy, Policy
from ding_lite.policy.sequences import RecurrentPolicy
from ding_lite.utils.key import METHODS, SECTION
from ding_lite.utils.registry import LEARNING_PARTS, POLICY_REGISTRY
from tests.policy.helpers import OURS

ONLY_OF_COLLECTS = ("batches", "_batches")  # not called if `learns_from` is another source
GIVEN = {"check_config": (("cfg", ""),), "__init__": (("cfg", "policy"),)}  # the part of the config that `cfg` is


class Read(NamedTuple):
    """A key of the config in a function: 'reads' it, 'asks' for it, or reads it where another key 'guards' that."""

    path: str
    kind: str
    place: str


class Function(NamedTuple):
    """A function, the class in whose body it is, its arguments that are parts of the config, and if a key guards it."""

    code: Any
    owner: type | None
    sections: tuple[tuple[str, str], ...]
    guarded: bool = False


def find_function(value: Any) -> Any:
    """Return the function of a method, class method, static method or property of the package; None if it is none."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else value
    return value if inspect.isfunction(value) and value.__module__.startswith(("ding_lite.", "tests.")) else None


class Reader(ast.NodeVisitor):
    """Finds what a function reads of the config, and which functions it calls, for a policy of the class `cls`."""

    def __init__(self, cls: type, function: Function) -> None:
        self.cls, self.function, self.guarded = cls, function, function.guarded
        self.sections = dict(function.sections)  # variables, and the parts of the config that they are
        self.found: list[tuple[str, bool, bool]] = []
        self.calls: set[Function] = set()
        self.visit(ast.parse(textwrap.dedent(inspect.getsource(function.code))))
        place = f"{function.code.__module__}.{function.code.__qualname__}"
        asked = tuple(f"{path}." for path, asks, _ in self.found if asks)
        self.reads = {
            Read(path, "asks" if asks else "guards" if guarded or f"{path}.".startswith(asked) else "reads", place)
            for path, asks, guarded in self.found
        }

    def path(self, node: ast.AST) -> str | None:
        """Return the dotted name of an expression in the config, '' for all of it; None if it is no part of it."""
        match node:
            case ast.Name(name):
                return self.sections.get(name)
            case ast.Attribute(ast.Name("self" | "policy"), "_cfg" | "current_config"):
                return "policy"
            case ast.Attribute(inner, name) if name not in METHODS:
                return self.below(inner, name)
            case ast.Subscript(inner, ast.Constant(str(name))):
                return self.below(inner, name)
            case ast.Call(ast.Attribute(inner, "get"), [ast.Constant(str(name)), *_]):
                return self.below(inner, name)
            case ast.Compare(ast.Constant(str(name)), [ast.In() | ast.NotIn()], [inner]):
                return self.below(inner, name)
        return None

    def below(self, node: ast.AST, name: str) -> str | None:
        section = self.path(node)
        return None if section is None else f"{section}.{name}".lstrip(".")

    def visit(self, node: ast.AST) -> None:
        is_written = isinstance(getattr(node, "ctx", None), ast.Store)
        if not is_written and not isinstance(node, ast.Name) and (path := self.path(node)):
            self.found.append((path, isinstance(node, ast.Call | ast.Compare), self.guarded))
        match node:
            case ast.If(test, first, rest) | ast.IfExp(test, first, rest):
                parts = [[each] if isinstance(each, ast.AST) else each for each in (first, rest)]
                self.visit_guarded([test, *parts[0]], parts[1])
                return
            case ast.BoolOp(ast.And(), values):
                self.visit_guarded(values, [])
                return
            case ast.Assign([target], value):
                several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                for name, part in zip(target.elts, value.elts, strict=True) if several else [(target, value)]:  # type: ignore[attr-defined]  # mypy does not follow `several`
                    if isinstance(name, ast.Name) and (path := self.path(part)) is not None:
                        self.sections[name.id] = path
            case ast.Attribute(ast.Name("self" | "cls" | "policy"), name):
                self.call_method(name)
            case ast.Attribute(ast.Call(ast.Name("super")), name):
                self.call_method(name, self.function.owner)
            case ast.Call(ast.Name(name), arguments, keywords):
                named = {each.arg: each.value for each in keywords if each.arg}
                self.call_function(self.function.code.__globals__.get(name), arguments, named)
        self.generic_visit(node)

    def visit_guarded(self, nodes: list[Any], rest: list[Any]) -> None:
        """Visit nodes, of which each guards the next ones if it asks for a key, and then the rest."""
        before = self.guarded
        for node in nodes:
            number = len(self.found)
            self.visit(node)
            self.guarded = self.guarded or (node is not nodes[-1] and any(asks for _, asks, _ in self.found[number:]))
        self.guarded = before
        for node in rest:
            self.visit(node)

    def call_method(self, name: str, after: type | None = None) -> None:
        """Note a method as the class has it, or as `super()` in the body of the class `after` has it."""
        owners = self.cls.__mro__[self.cls.__mro__.index(after) + 1 if after else 0 :]
        owner = next((each for each in owners if name in vars(each)), object)
        if code := find_function(vars(owner).get(name)):
            self.calls.add(Function(code, owner, GIVEN.get(name, ()), self.guarded))

    def call_function(self, called: Any, arguments: list[ast.expr], named: dict[str, ast.expr]) -> None:
        """Note a function that gets the policy or a part of the config."""
        if code := find_function(called):
            given = {**dict(zip(inspect.signature(code).parameters, arguments, strict=False)), **named}
            sections = tuple((name, path) for name, each in given.items() if (path := self.path(each)) is not None)
            if sections or any(isinstance(each, ast.Name) and each.id == "self" for each in given.values()):
                self.calls.add(Function(code, None, sections, self.guarded))


def find_reads(cls: type[Policy]) -> set[Read]:
    """Return all that the methods read that a policy uses."""
    reads, done = set[Read](), set[Function]()
    start = Reader(cls, Function(find_function(Policy.learn), Policy, ()))
    for name in dir(Policy):
        if cls.learns_from == "collect" or name not in ONLY_OF_COLLECTS:
            start.call_method(name)
    todo = start.calls
    while todo := todo - done:
        function = todo.pop()
        done.add(function)
        reader = Reader(cls, function)
        reads |= reader.reads
        todo |= reader.calls
    return {read for read in reads if not read.path.startswith(tuple(LEARNING_PARTS))}


def is_known(path: str, keys: Schema) -> bool:
    """Return whether a path is a key, a section, or something in the value of a key."""
    values = [key for key in keys if keys[key].type is not SECTION]
    return path in keys or any(f"{key}.".startswith(f"{path}.") or path.startswith(f"{key}.") for key in values)


def may_be_missing(path: str, keys: Schema) -> bool:
    """Return whether a key is not declared, or only used with an option; of a section, whether all its keys are."""
    return all(key.option(name, keys) for name, key in keys.items() if f"{name}.".startswith(f"{path}."))


def mistakes(reads: set[Read], keys: Schema) -> list[Read]:
    return sorted(read for read in reads if read.kind == "reads" and not is_known(read.path, keys))


@functools.cache
def reads_of(name: str) -> set[Read]:
    return find_reads(POLICY_REGISTRY.find(name))


@functools.cache
def keys_of(name: str) -> Schema:
    """Return the keys of a policy, of its default model and of everything else in a config."""
    return config_schema({"policy": {"type": name}}, POLICY_REGISTRY.find(name))


@pytest.mark.parametrize("name", OURS)
def test_a_policy_reads_only_the_keys_that_it_declares(name: str) -> None:
    assert mistakes(reads_of(name), keys_of(name)) == []


def test_only_keys_that_some_policies_lack_are_asked_for() -> None:
    policies: dict[Read, list[Schema]] = {}  # the keys of those that read it, or ask for it
    for name in OURS:
        for read in (read for read in reads_of(name) if "AgentPolicy" not in read.place):  # it is for any policy
            policies.setdefault(read, []).append(keys_of(name))
    assert [read for read, each in policies.items() if not any(is_known(read.path, keys) for keys in each)] == []
    # a model that the user passes has no keys
    asked = [read for read in policies if read.kind == "asks" and not read.path.startswith("policy.model.")]
    assert [read for read in asked if not any(may_be_missing(read.path, keys) for keys in policies[read])] == []
    assert len(asked) > 10


def helper(learn: Any, number: float) -> float:
    return number * learn.of_helper


class WrongPolicy(RecurrentPolicy, DQNPolicy):
    """It has the keys of DQN, and reads others in all ways in which policies do."""

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        cfg, learn = self._cfg, self._cfg.learn
        number = cfg.direct * learn.batch_size * learn["subscript"] + self._of_method(batch)
        if "absent" in cfg and cfg.absent > cfg.guarded:
            number += cfg.also_guarded
        cfg.written = number
        return self._priority(number), {}

    def _of_method(self, batch: dict[str, Any]) -> Any:
        return helper(number=self._cfg.model.of_model, learn=self._cfg.learn)

    def never_called(self) -> Any:
        return self._cfg.unused


def test_what_a_policy_lacks_is_found_however_it_is_read() -> None:
    reads = find_reads(WrongPolicy)
    wanted = {"direct", "learn.subscript", "learn.of_helper", "model.of_model", "learn.priority_eta"}
    assert {read.path for read in mistakes(reads, keys_of("dqn"))} == {f"policy.{path}" for path in wanted}
    paths = {read.path for read in reads}
    assert {"policy.learn.ignore_done", "policy.noisy_net", "policy.other.eps.start", "policy.eval.average"} < paths
    assert "policy.double" not in paths  # only the loss of DQN reads it
    assert "policy.double" in {read.path for read in reads_of("dqn")}
