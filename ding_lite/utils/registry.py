"""Registries that map names to classes, and the errors for a user's mistakes."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

C = TypeVar("C", bound=type)
# A name in `ENCODER_REGISTRY`, or a dict of `type` and options of this class; None: the observation determines it.
EncoderChoice = str | Mapping[str, Any] | None
CONFIG_MODULE = "_ding_lite_config_"  # begins the name of the module in which a config file is run


class UserError(Exception):
    """A mistake that the user can correct. The message is one line that says what is wrong and what to do.

    The message may quote any user input, because characters that cannot be printed are escaped.

    Attributes:
        longest: largest number of characters of a message; a longer one is shortened in the middle.
    """

    longest = 1000

    def __str__(self) -> str:
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in super().__str__())
        return text if len(text) <= self.longest else f"{text[: self.longest - 100]} ... {text[-95:]}"


class ConfigError(UserError, ValueError):
    """A mistake in a config or on the command line."""

    longest = 400


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name that is most similar to `name`; empty if none is similar."""
    match = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.5)  # a long name would take seconds
    return f" Did you mean '{match[0]}'?" if match else ""


def place_of(error: BaseException) -> str:
    """Return the file and the line that raised an error, as the beginning of a message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"{place[0]}, line {place[1]}: "


class Registry(dict[str, type]):
    """A dict from names, which the `type` keys of a config use, to classes.

    Args:
        kind: what the classes are, for messages.
        import_key: the key of a config that lists modules to import, for messages; empty: there is none.

    Example::

        @POLICY_REGISTRY.register("dqn")
        class DQNPolicy(Policy): ...
    """

    def __init__(self, kind: str, import_key: str = "") -> None:
        super().__init__()
        self.kind, self.import_key = kind, import_key

    def register(self, name: str) -> Callable[[C], C]:
        """Return a class decorator that registers the class under a name.

        Raises:
            ConfigError: by the decorator, if another class has this name.
        """

        def add(cls: C) -> C:
            taken = super(Registry, self).get(name)
            if taken is not None and not _same_definition(taken, cls):
                raise ConfigError(
                    f"{self.kind} '{name}' is the name of {taken.__module__}.{taken.__name__}: choose another one for "
                    f"{cls.__module__}.{cls.__name__}."
                )
            self[name] = cls
            return cls

        return add

    def find(self, name: str) -> type[Any]:
        """Return the class that is registered under `name`.

        Raises:
            ConfigError: there is none; the message suggests the most similar name.
        """
        if not isinstance(name, str) or name not in self:  # a config may contain a value of any type here
            known, similar = ", ".join(sorted(self)) or "none", closest(str(name), self)
            hint = "" if similar or not self.import_key else f" {self.import_key} lists the modules that register more."
            raise ConfigError(f"Unknown {self.kind} type '{name}'.{similar} Registered: {known}.{hint}")
        return self[name]


def import_modules(package: str, path: Iterable[str]) -> None:
    """Import all modules of a package, so that a new file registers its classes without an entry in any list.

    Args:
        package: the package's `__name__`.
        path: its `__path__`.
    """
    for module in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(module.name)


def _same_definition(one: type, other: type) -> bool:
    """Return whether two classes come from the same lines of code.

    A config file that names itself in `import_names` is run twice, once as a config and once as a module.
    """
    places = [one.__module__, other.__module__]
    if any(place.startswith(CONFIG_MODULE) for place in places):
        places = [place.rpartition(".")[2].removeprefix(CONFIG_MODULE) for place in places]
    return places[0] == places[1] and one.__qualname__ == other.__qualname__


ENV_REGISTRY = Registry("environment", "env.import_names")
POLICY_REGISTRY = Registry("policy", "policy.import_names")
MODEL_REGISTRY = Registry("model", "policy.import_names")
ENCODER_REGISTRY = Registry("policy.model.encoder", "policy.import_names")
BUFFER_REGISTRY = Registry("replay buffer", "policy.import_names")
REWARD_MODEL_REGISTRY = Registry("reward model", "reward_model.import_names")
TRACKER_REGISTRY = Registry("tracker")
