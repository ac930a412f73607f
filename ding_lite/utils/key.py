"""Declares config keys: default, meaning, type and range in one place, in the class that has the key.

A class declares its keys in `config`, as nested dicts of `Key`:

    config = dict(
        learn=dict(
            batch_size=Key(64, "samples per rank and iteration", low=1),
            grad_clip_type=Key(None, "how gradients are clipped", choices=(None, "clip_norm", "clip_value")),
            target_entropy=Key(None, "in nats; None: minus the number of dimensions", type=float),
        ),
    )

A subclass may give a plain value, such as `learning_rate=3e-4`, to change a default and keep the rest of the
declaration. A plain value that no base class declares becomes a key with the value's type, without range and meaning.

Keys that several classes have are groups. A class names all of its groups, as in `key_groups = (REPLAY_KEYS,
LEARNING_RATE_KEYS)`; a subclass inherits this attribute, or replaces it.

The value of a key that is a number may be a schedule, a dict; `schedule` says what its fields mean.
"""

from __future__ import annotations

import copy
import math
import types
import typing
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any

from easydict import EasyDict

from ding_lite.utils.registry import ConfigError, closest

Groups = tuple[dict[str, Any], ...]  # nested dicts of keys
SECTION = object()  # the type of a dict that declares no keys yet
SPAN = ("start", "end", "over", "by")
SCHEDULE_FIELDS = {"linear": SPAN, "cosine": SPAN, "exponential": SPAN, "exp": SPAN, "piecewise": ("points", "by")}
SECTIONS = ("learn", "collect", "eval")  # sections of `policy` whose numbers may be schedules, as may those in none
LARGEST_INT = 2**31 - 1
WORDS = {"True": True, "False": False, "None": None}  # words that a user may write in lower case
ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "GELU": "gelu", "ELU": "elu", "SiLU": "silu"}  # torch's class -> name


@dataclass(frozen=True)
class Key:
    """The declaration of one config key.

    Attributes:
        default: the value that applies if the user sets none.
        meaning: what the key does, with units; error messages and docs/config.md quote it.
        type: a type, a `typing` annotation, or a tuple of them. None: the type of `default` or of the `choices`. If the
            default is None, None is always allowed.
        low, high: smallest and largest allowed number; for a list, of each of its numbers. Without `high`, floats have
            no limit, and that of an int that has a `low` is 2^31 - 1.
        above, below: bounds that numbers must not reach.
        choices: the only allowed values; empty if there is no such restriction.
        constant: whether the number cannot be a schedule (see `utils/schedule.py`): True if it is only read when the
            run is built, or another reason, which follows 'because' in the message.
        needs: the option that the key belongs to: the name of another key, `name=False`, or `name=a|b` for certain
            values, see `Key.is_used`. A compiled config contains the key only if the option is on.
    """

    default: Any
    meaning: str
    type: Any = None
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[Any, ...] = ()
    constant: bool | str = False
    needs: str = ""

    @property
    def hint(self) -> Any:
        """The types that a value may have, as `matches` takes them."""
        if self.type is None:
            kinds = tuple(None if value is None else type(value) for value in self.choices or (self.default,))
            return Any if kinds == (None,) else kinds
        return (self.type, None) if self.default is None and not matches(None, self.type) else self.type

    def check(self, path: str, value: Any) -> None:
        """Check a value; `path` is the key's dotted name, for the message."""
        mistake = self._find_mistake(value)
        if mistake:
            raise ConfigError(f"{path}{mistake}." + (f" Meaning: {self.meaning}." if self.meaning else ""))

    def option(self, path: str, known: Container[str]) -> str:
        """Return the dotted name of the key that switches this key's option; empty if there is none.

        It is in the same section or, like the variables of nested functions, in the nearest one around it.
        """
        name, section = self.needs.partition("=")[0], path if self.needs else ""
        while section:
            section = section.rpartition(".")[0]
            if (full := f"{section}.{name}".lstrip(".")) in known:
                return full
        return ""

    def is_used(self, switch: Any, default: Any = False) -> bool:
        """Return whether the key's option is on; True if there is none.

        `switch` is the value of the key that switches it. If the default of that key is None, 0 switches it on, too.
        """
        _, _, values = self.needs.partition("=")
        if values in ("", "False"):
            is_on = bool(switch) if default is not None else switch is not None
            return not self.needs or is_on == (not values)
        return str(switch) in values.split("|")

    def _find_mistake(self, value: Any) -> str:
        """Return what was expected and what was given, for a message; empty if the value is allowed."""
        if self.choices:
            allowed = any(value == choice and type(value) is type(choice) for choice in self.choices)
            *first, last = [repr(choice) for choice in sorted(self.choices, key=lambda choice: choice is None)]
            names = f"{', '.join(first)} or {last}" if first else last
            return "" if allowed else f" must be {names}, got {show_value(value)}"
        if not matches(value, self.hint):
            meant = next((word for word in WORDS if value == word.lower() and matches(WORDS[word], self.hint)), "")
            return f": expected {describe(self.hint)}, got {show(value)}" + f": write {meant}" * bool(meant)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int | float) and not isinstance(item, bool) and not self._contains(item):
                return f": expected {self._describe_range(item)}, got {item!r}"
        return ""

    def _limit(self) -> float:
        """Return the largest allowed number."""
        if self.high is None and self.low is not None and matches(0, self.hint) and not matches(0.5, self.hint):
            return LARGEST_INT
        return math.inf if self.high is None else self.high

    def _contains(self, number: float) -> bool:
        bounds = ((ge, self.low), (gt, self.above), (le, self._limit()), (lt, self.below))
        return all(holds(number, bound) for holds, bound in bounds if bound is not None)  # false for nan

    def _describe_range(self, number: float) -> str:
        high = self._limit()
        if self.low is not None and (number > high or high == 1):
            return f"a number from {self.low} to {high}"
        if self.above is not None and self.below is not None:
            return f"a number between {self.above} and {self.below}"
        if self.above is not None:
            return f"a number above {self.above}" + (f", at most {self.high}" if self.high is not None else "")
        if self.low is not None:
            return f"at least {self.low}" + (f", below {self.below}" if self.below is not None else "")
        bounds = [f"at most {self.high}"] * (self.high is not None) + [f"below {self.below}"] * (self.below is not None)
        return bounds[0] if bounds else "a number"

    def range_text(self) -> str:
        """Return the range as docs/config.md shows it, such as `>= 1` or `0..1`; empty if there is none."""
        if self.choices:
            return ""
        if self.low is not None and self.high is not None:
            return f"{self.low}..{self.high}"
        bounds = ((">=", self.low), (">", self.above), ("<=", self.high), ("<", self.below))
        return ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)


def declared_keys(cls: type, base: Mapping[str, Any] = {}) -> dict[str, Key]:
    """Return the keys that a class and its base classes declare in `config` and `key_groups`, by their dotted names.

    If a subclass replaces the groups, only the keys that differ change; the others keep the defaults that a `config`
    gave them. A section without keys becomes a `Key` of type `SECTION`.
    """
    tree, before = merge_keys(base), dict[str, Key]()
    for owner in reversed(cls.__mro__):
        groups, config = group_keys(owner) if "key_groups" in vars(owner) else before, vars(owner).get("config", {})
        tree = merge_keys(tree, config)  # a first time, so that keys of groups come after those of the class
        for path in before.keys() - groups.keys():
            pop_key(tree, path)
            section = path.rpartition(".")[0]
            if "." in section and not get_key(tree, section):
                pop_key(tree, section)
        for path, key in groups.items():
            if key != before.get(path):
                set_key(tree, path, key)
        tree, before = merge_keys(tree, config), groups
    return dict(_flatten(tree, ""))


def group_keys(cls: type) -> dict[str, Key]:
    """Return the keys of the groups that a class has, by their dotted names."""
    return dict(_flatten(merge_keys({}, *getattr(cls, "key_groups", ())), ""))


def with_option(needs: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return declarations of keys that all belong to one option, see `Key.needs`."""
    return {name: replace(key, needs=needs) for name, key in keys.items()}


def default_values(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dicts of copies of the default values."""
    values: dict[str, Any] = {}
    for path, key in _flatten(tree, ""):
        set_key(values, path, copy.deepcopy(key.default))
    return values


class ConfigDict(EasyDict):  # type: ignore[misc]  # easydict has no types
    """An EasyDict in which a key with the name of a method, such as `items`, is no attribute: the method stays."""

    def __setattr__(self, name: str, value: Any) -> None:
        if type(value) in (list, tuple):
            value = type(value)(ConfigDict(item) if isinstance(item, dict) else item for item in value)
        elif type(value) in (dict, EasyDict):
            value = ConfigDict(value)
        if name not in METHODS:
            self.__dict__[name] = value
        dict.__setitem__(self, name, value)

    __setitem__ = __setattr__

    def pop(self, key: str, *default: Any) -> Any:
        self.__dict__.pop(key, None)
        return dict.pop(self, key, *default)


METHODS = frozenset(dir(EasyDict))


def get_key(cfg: Any, path: str, default: Any = None) -> Any:
    """Return the value of a dotted key, or `default` if the key or one of its sections is missing."""
    for key in path.split("."):
        if not isinstance(cfg, Mapping) or key not in cfg:
            return default
        cfg = cfg[key]
    return cfg


def pop_key(cfg: Any, path: str) -> Any:
    """Remove a dotted key, and return its value; None if it is missing."""
    section, _, last = path.rpartition(".")
    node = get_key(cfg, section) if section else cfg
    return node.pop(last, None) if isinstance(node, dict) else None


def set_key(cfg: dict[str, Any], path: str, value: Any) -> None:
    """Set a dotted key, and create the sections that are missing."""
    *parents, last = path.split(".")
    for key in parents:
        cfg = cfg.setdefault(key, {})
        if not isinstance(cfg, dict):
            raise ConfigError(f"{path}: expected '{key}' to be a dict of options, got {show(cfg)}.")
    cfg[last] = value


def merge_keys(low: Mapping[str, Any], *higher: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested declarations or values, merged into new dicts; where several have a key, the last one counts."""
    merged = {name: merge_keys(value) if isinstance(value, Mapping) else value for name, value in low.items()}
    for name, value in (item for high in higher for item in high.items()):
        inner = merged.get(name)
        if isinstance(value, Key):
            merged[name] = value
        elif isinstance(inner, Key):
            merged[name] = _change_default(inner, value)
        elif isinstance(value, Mapping):
            merged[name] = merge_keys(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _change_default(key: Key, value: Any) -> Key:
    """Return `key` with another default. A value of another type replaces type and range too."""
    fits = matches(list(value) if isinstance(value, tuple) else value, key.hint)
    if not fits and not key.choices:
        return Key(value, key.meaning)
    return replace(key, default=value, type=key.type if key.choices else key.hint)


def _flatten(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Key]]:
    for name, value in tree.items():
        path = prefix + name
        if isinstance(value, Key):
            yield path, value
        elif not isinstance(value, Mapping):
            yield path, Key(value, "")
        elif value:
            yield from _flatten(value, path + ".")
        else:
            yield path, Key({}, "", SECTION)


def matches(value: Any, hint: Any) -> bool:
    """Return whether a plain value has a type. An int counts as a float and a list as a tuple; a bool is not an int.

    `hint` is a type, a `typing` annotation such as `Literal`, or a tuple of alternatives.
    """
    if hint is Any:  # since Python 3.11 a class, which refuses `isinstance`
        return True
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, tuple) or origin in (typing.Union, types.UnionType):
        return any(matches(value, option) for option in (args or hint))
    if origin is typing.Literal:
        return any(value == option and type(value) is type(option) for option in args)
    kind = origin or hint
    if kind in (float, int):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if kind in (list, tuple, Sequence):
        return isinstance(value, list) and all(matches(item, args[0]) for item in value if args)
    if kind is None:
        return value is None
    return isinstance(value, kind) if isinstance(kind, type) else True


def is_schedule(path: str, key: Key, value: Any) -> bool:
    """Return whether the value of a config key is meant as a schedule: a dict where a number is expected.

    Where a whole number is expected, which cannot change, only a dict with all fields of a schedule is meant as one.
    """
    if not isinstance(value, Mapping) or not path.startswith("policy.") or key.choices or matches({}, key.hint):
        return False
    return matches(0.5, key.hint) or (matches(1, key.hint) and has_fields(value))


def has_fields(value: Any) -> bool:
    """Return whether a value has a type of a schedule and all fields of this type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return isinstance(kind, str) and kind in SCHEDULE_FIELDS and set(SCHEDULE_FIELDS[kind]) <= value.keys()


def why_constant(path: str, key: Key) -> str:
    """Return why the number of a key cannot change during a run; empty if it can. `path` begins with 'policy.'."""
    if isinstance(key.constant, str):
        return key.constant
    if not matches(0.5, key.hint):
        return "it is a whole number"
    _, *sections, _ = path.split(".")
    fixed = key.constant or (sections and sections[0] not in SECTIONS)
    return "it is only read when the run is built" if fixed else ""


def describe(hint: Any) -> str:
    """Return a description of the types that `matches` accepts."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return ", ".join(map(repr, args))
    if isinstance(hint, tuple) or origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(option) for option in (args or hint)))
    text = str(hint) if args else getattr(hint, "__name__", str(hint))
    names = {"collections.abc.Mapping[str, typing.Any]": "dict", "collections.abc.Sequence": "list", "typing.": ""}
    names |= {"torch.nn.modules.module.": "", "Module": "nn.Module", "NoneType": "None", " | ": " or "}
    for long, short in names.items():
        text = text.replace(long, short)
    return text


def show(value: Any) -> str:
    """Return the type and the text of any value, for an error message."""
    return f"{type(value).__name__} {show_value(value)}"


def show_value(value: Any) -> str:
    """Return the text of any value, for an error message."""
    try:
        text = repr(value)
    except Exception as error:  # raised by a class of the user, or by an int of thousands of digits
        text = f"(its repr fails with {type(error).__name__})"
    return text if len(text) <= 80 else text[:77] + "..."


def is_activation(value: Any) -> bool:
    """Return whether a value is an activation of torch: a module such as `nn.ReLU()`, or its class."""
    cls = value if isinstance(value, type) else type(value)
    return cls.__module__ == "torch.nn.modules.activation"


def activation_name(value: Any, path: str = "policy.model.activation") -> str:
    """Return the name of an activation, such as 'relu' for itself, for `nn.ReLU` and for `nn.ReLU()`."""
    if isinstance(value, str) and value in ACTIVATIONS.values():
        return value
    cls = value if isinstance(value, type) else type(value)
    name = ACTIVATIONS.get(cls.__name__) if is_activation(value) else None
    if name and (value is cls or repr(value) in (repr(cls()), "ReLU(inplace=True)")):
        return name
    hint = closest(value, ACTIVATIONS.values()) if isinstance(value, str) else ""
    got = f"'{value}'" if isinstance(value, str) else show_value(value)
    raise ConfigError(f"{path} must be one of {', '.join(ACTIVATIONS.values())}, got {got}.{hint}")
