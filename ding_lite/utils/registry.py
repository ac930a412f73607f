"""Registries that map names to classes, and the errors that a user's mistakes cause."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


class UserError(Exception):
    """A mistake that the user can correct. The message is one line: what is wrong and what to do.

    It may quote any text of the user: characters that cannot be printed are escaped.

    Attributes:
        longest: characters of a message; the middle of a longer one is left out.
    """

    longest = 1000

    def __str__(self) -> str:
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in super().__str__())
        return text if len(text) <= self.longest else f"{text[: self.longest - 100]} ... {text[-95:]}"


class ConfigError(UserError, ValueError):
    """A mistake in a config or on the command line."""

    longest = 400


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name most like `name`, or an empty string if none is like it."""
    match = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.5)  # it takes seconds for a long one
    return f" Did you mean '{match[0]}'?" if match else ""


def place_of(error: BaseException) -> str:
    """Return file and line that an error comes from, as the beginning of a message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"{place[0]}, line {place[1]}: "


class Registry(dict[str, type]):
    """A dict of classes by name, as used in the `type` keys of a config.

    Example::

        @POLICY_REGISTRY.register("dqn")
        class DQNPolicy(Policy): ...
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[C], C]:
        """Return a class decorator; a name that another class holds already raises `ConfigError`."""

        def add(cls: C) -> C:
            taken = super(Registry, self).get(name)
            if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ConfigError(
                    f"{self.kind} '{name}' is registered already, by {taken.__module__}.{taken.__name__}."
                )
            self[name] = cls
            return cls

        return add

    def find(self, name: str) -> type[Any]:
        """Return the class called `name`, or raise `ConfigError` naming the closest one."""
        if not isinstance(name, str) or name not in self:  # what a config says may be anything
            known = ", ".join(sorted(self)) or "none"
            raise ConfigError(f"Unknown {self.kind} type '{name}'.{closest(str(name), self)} Registered: {known}.")
        return self[name]


ENV_REGISTRY = Registry("environment")
POLICY_REGISTRY = Registry("policy")
MODEL_REGISTRY = Registry("model")
BUFFER_REGISTRY = Registry("replay buffer")
REWARD_MODEL_REGISTRY = Registry("reward model")
