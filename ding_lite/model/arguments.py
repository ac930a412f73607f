"""The arguments of models: passing them on, shapes of observations and actions, choices."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar

from ding_lite.utils.registry import ConfigError, closest
from ding_lite.utils.tree import MASK, dotted_items, leave_out

F = TypeVar("F", bound=Callable[..., None])
ObsShape = int | Sequence[int] | Mapping[str, Any]  # shape of a vector or an image, or a dict of shapes
ActionShape = int | Sequence[int]  # a number, also as the only one of a list; or the numbers of several choices
HybridShape = Mapping[str, Any]  # an `ActionShape` for each of `action_type_shape` and `action_args_shape`
HYBRID_SHAPES = ("action_type_shape", "action_args_shape")


def with_arguments_of(cls: Any, without: Sequence[str] = ()) -> Callable[[F], F]:
    """Return a decorator of a constructor that passes arguments on to the constructor of `cls` by `**options`.

    The decorator changes only what `inspect.signature`, `typing.get_type_hints` and `help` show: in the place of
    `*args` and `**options` the arguments of `cls` that are not in `without`, with their types and explanations. The
    check of a config and the config reference read them.
    """

    def show(init: F) -> F:
        own, passed = inspect.signature(init).parameters, inspect.signature(cls).parameters
        added = [passed[name] for name in passed if name not in own and name not in without]
        kinds = {parameter.kind for parameter in own.values()}
        if inspect.Parameter.VAR_POSITIONAL not in kinds:
            added = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in added]
        kept = [parameter for name, parameter in own.items() if name not in ("args", "options")]
        both = sorted([*kept, *added], key=lambda parameter: parameter.kind)
        init.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
        init.__annotations__ = typing.get_type_hints(cls.__init__) | init.__annotations__
        init.__doc__ = "\n\n".join(text for text in (inspect.getdoc(cls), cls.__init__.__doc__) if text)
        return init

    return show


def single_size(action_shape: ActionShape | HybridShape, of: str = "") -> int:
    """Return an `action_shape` (`of` names its owner) that is a number, or a list of one number, as this number."""
    sizes = action_shape if isinstance(action_shape, list | tuple) else [action_shape]
    if len(sizes) != 1 or not isinstance(sizes[0], Integral):  # NumPy's integers are too
        raise ConfigError(f"policy.model.action_shape{of} must be a whole number, got {action_shape}.")
    return int(sizes[0])


def branch_options(action_shape: Any) -> list[int]:
    """Return the `action_shape` of a multi-discrete action, the number of options of each branch, as a list."""
    given = action_shape if isinstance(action_shape, Sequence) else ()
    if not given or not all(isinstance(options, Integral) for options in given):
        raise ConfigError(f"policy.model.action_shape: expected a list of numbers of options, got {action_shape}.")
    return [int(options) for options in given]


def hybrid_sizes(action_shape: Any) -> tuple[int, int]:
    """Return the number of action types and the number of arguments, from the `action_shape` of a hybrid action."""
    if not isinstance(action_shape, Mapping) or sorted(action_shape) != sorted(HYBRID_SHAPES):
        expected = f"a dict of {' and '.join(HYBRID_SHAPES)}"
        raise ConfigError(f"policy.model.action_shape of a hybrid action must be {expected}, got {action_shape}.")
    num_types, num_args = (single_size(action_shape[key], f".{key}") for key in HYBRID_SHAPES)
    return num_types, num_args


def check_choice(key: str, value: str | None, choices: Sequence[str | None], elsewhere: Mapping[str, str] = {}) -> None:
    """Raise `ConfigError` if a key of `policy.model` has none of the allowed values.

    `elsewhere` has values that other classes take, and a sentence that says which.
    """
    if value not in choices:
        words = [choice for choice in choices if choice is not None]
        names = ", ".join(str(choice) for choice in choices)
        place = elsewhere.get(str(value))
        hint = f" {place}" if place else closest(str(value), words)
        raise ConfigError(f"policy.model.{key} must be one of {names}, got '{value}'.{hint}")


def check_hidden(name: str, hidden: Sequence[str] | None, obs_shape: ObsShape) -> list[str]:
    """Return the dotted paths that an actor does not see, an empty list for None.

    Raises:
        ConfigError: the observations are no dict, or lack one of them, or nothing would be left to see.
    """
    if not hidden:
        return []
    hidden = list(hidden)
    if not isinstance(obs_shape, Mapping):
        raise ConfigError(
            f"policy.model.{name}={hidden}: expected observations that are a Dict, got shape {obs_shape}: give the "
            "environment one, or leave the key out."
        )
    for path in hidden:
        if leave_out(obs_shape, [path]) == obs_shape or path == MASK:
            known = [path for path, _ in dotted_items(leave_out(obs_shape, [MASK]))]
            raise ConfigError(
                f"policy.model.{name}: the observations have no part '{path}' that could be hidden, only "
                f"{', '.join(known)}.{closest(path, known)}"
            )
    if not leave_out(obs_shape, [MASK, *hidden]):
        raise ConfigError(f"policy.model.{name}={hidden}: these are all parts of the observations: leave one out.")
    return hidden
