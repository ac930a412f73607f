"""Registries that map names to classes, and the errors for a user's mistakes."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import re
import sysconfig
import traceback
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ding_lite.utils.printable import printable

C = TypeVar("C", bound=type)
# A name in `ENCODER_REGISTRY`, or a dict of `type` and options of this class; None: the observation determines it.
EncoderChoice = str | Mapping[str, Any] | None
ENOUGH = 0.5  # likeness of a name that may be meant
SHORTEST_BEGINNING = 4  # characters of a name that may be the beginning of another one
CONFIG_MODULE = "_ding_lite_config_"  # begins the name of the module in which a config file is run


class UserError(Exception):
    """A mistake that the user can correct. The message is one line that says what is wrong and what to do.

    The message may quote any user input, because characters that cannot be printed are escaped.

    Attributes:
        longest: largest number of characters of a message; a longer one is shortened in the middle.
    """

    longest = 1000

    def __str__(self) -> str:
        text = printable(super().__str__())
        return text if len(text) <= self.longest else f"{text[: self.longest - 100]} ... {text[-95:]}"


class ConfigError(UserError, ValueError):
    """A mistake in a config or on the command line."""

    longest = 400


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name that is most similar to `name`; empty if none is similar.

    A name may be misspelt, or be the beginning of another one. Upper and lower case are alike. Of names that begin
    alike, the first is meant: `eval/retrn` is `eval/return_mean`.
    """
    short = name[:100].lower()  # a long name would take seconds

    def likeness(other: str) -> float:
        own, begins = other.lower(), 0.0
        if len(short) >= SHORTEST_BEGINNING:
            begins = difflib.SequenceMatcher(None, own[: len(short)], short).ratio()
        return max(difflib.SequenceMatcher(None, own, short).ratio(), 0.95 * begins)

    best = max(known, key=lambda other: (likeness(other), other[:1] == name[:1]), default="")
    return f" Did you mean '{best}'?" if best and likeness(best) >= ENOUGH else ""


def load_extra(module: str, extra: str, what: str = "This") -> Any:
    """Import a module that only one of our extras installs.

    Raises:
        ConfigError: it cannot be imported. The message says that `what` needs the extra, unless a module is missing
            that a file of the user's imports, or that the installed package does not have.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, FileNotFoundError) as error:  # a missing file: envpool's assets are separate packages
        missing, package = getattr(error, "name", None) or "", module.partition(".")[0]
        if missing.startswith(f"{package}.") and importlib.util.find_spec(package):
            raise ConfigError(f"{what}: the installed package '{package}' has no module '{missing}'.") from error
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
        file, installed = Path(frames[-1].filename), map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
        if missing != extra and not any(file.is_relative_to(folder) for folder in installed):
            place = f"{file}, line {frames[-1].lineno}"
            raise ConfigError(f"{what}: '{module}' cannot be imported: {place}: {error}.") from error
        raise ConfigError(f"{what} needs the extra '{extra}' ({error}): pip install 'ding_lite[{extra}]'.") from error


def place_of(error: BaseException) -> str:
    """Return the file and the line that raised an error, as the beginning of a message."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"{place[0]}, line {place[1]}: "


@functools.cache
def registered_names() -> Mapping[str, Mapping[str, str]]:
    """Return the modules of this package that register classes, by the name of the registry's variable and the type."""
    pattern = re.compile(r"""^@(\w+_REGISTRY)\.register\(["']([^"']+)["']\)""", re.MULTILINE)
    modules: dict[str, dict[str, str]] = {}
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        module = ".".join((package.name, *path.relative_to(package).with_suffix("").parts))
        for variable, name in pattern.findall(path.read_text(encoding="utf-8")):
            modules.setdefault(variable, {})[name] = module
    return modules


class Registry(UserDict[str, type[Any]]):
    """Maps names, which the `type` keys of a config use, to classes.

    The classes of this package need no import and no entry in any list. Their names are read from the text of its
    files, and a file is imported when one of its names is looked up. `data` has the classes that are imported.

    Args:
        kind: what the classes are, for messages.
        import_key: the key of a config that lists modules to import, for messages; empty: there is none.
        variable: the name of this registry in the files of this package that register classes with
            `@variable.register("name")`; empty: there is none.

    Example::

        @POLICY_REGISTRY.register("dqn")
        class DQNPolicy(Policy): ...
    """

    def __init__(self, kind: str, import_key: str = "", variable: str = "") -> None:
        super().__init__()
        self.kind, self.import_key, self._variable = kind, import_key, variable

    @property
    def _modules(self) -> Mapping[str, str]:
        """The modules that register the names of this package."""
        return registered_names().get(self._variable, {})

    def __missing__(self, name: str) -> type[Any]:
        importlib.import_module(self._modules[name])
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._modules, *self.data]))

    def __len__(self) -> int:
        return len(self._modules.keys() | self.data)

    def register(self, name: str) -> Callable[[C], C]:
        """Return a class decorator that registers the class under a name.

        Raises:
            ConfigError: by the decorator, if another class has this name.
        """

        def add(cls: C) -> C:
            own = self._modules.get(name) == cls.__module__
            taken = self.data.get(name) if own else self.get(name)
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


def wrapped(policy_cls: Any, policy: Mapping[str, Any]) -> Any:
    """Return a policy's class, behind the classes of `WRAPPER_REGISTRY` whose names are true keys of its `cfg.policy`.

    A wrapper is a subclass of `Policy` that overrides methods to change what a policy's own methods get and return. Its
    name may be a dotted key, such as 'learn.kl_learning_rate'.
    """

    def is_set(path: str) -> bool:
        return bool(functools.reduce(lambda section, key: section.get(key) or {}, path.split("."), policy))

    wrappers: list[Any] = [WRAPPER_REGISTRY[path] for path in WRAPPER_REGISTRY if is_set(path)]
    wrappers = [wrapper for wrapper in wrappers if not issubclass(policy_cls, wrapper)]
    return _join(policy_cls, *wrappers) if wrappers else policy_cls


@functools.cache
def _join(policy_cls: Any, *wrappers: Any) -> type[Any]:
    def reduce(self: Any) -> Any:  # pickle cannot find a class that is made here
        return _create_empty, (policy_cls, *wrappers), self.__dict__

    names = {"__module__": policy_cls.__module__, "__reduce__": reduce}
    return type(policy_cls.__name__, (*wrappers, policy_cls), names)


def _create_empty(policy_cls: Any, *wrappers: Any) -> Any:
    return object.__new__(_join(policy_cls, *wrappers))


def _same_definition(one: type, other: type) -> bool:
    """Return whether two classes come from the same lines of code.

    A config file that names itself in `import_names` is run twice, once as a config and once as a module.
    """
    places = [one.__module__, other.__module__]
    if any(place.startswith(CONFIG_MODULE) for place in places):
        places = [place.rpartition(".")[2].removeprefix(CONFIG_MODULE) for place in places]
    return places[0] == places[1] and one.__qualname__ == other.__qualname__


ENV_REGISTRY = Registry("environment", "env.import_names")
POLICY_REGISTRY = Registry("policy", "policy.import_names", "POLICY_REGISTRY")
WRAPPER_REGISTRY = Registry("policy wrapper", "", "WRAPPER_REGISTRY")
MODEL_REGISTRY = Registry("model", "policy.import_names", "MODEL_REGISTRY")
ENCODER_REGISTRY = Registry("policy.model.encoder", "policy.import_names", "ENCODER_REGISTRY")
BUFFER_REGISTRY = Registry("replay buffer", "policy.import_names", "BUFFER_REGISTRY")
REWARD_MODEL_REGISTRY = Registry("reward model", "reward_model.import_names", "REWARD_MODEL_REGISTRY")
WORLD_MODEL_REGISTRY = Registry("world model", "world_model.import_names", "WORLD_MODEL_REGISTRY")
TRACKER_REGISTRY = Registry("tracker", "", "TRACKER_REGISTRY")
# Parts of a run that learn beside the policy, see `run/learning_part.py`, by the name of their section.
LEARNING_PARTS = {"reward_model": REWARD_MODEL_REGISTRY, "world_model": WORLD_MODEL_REGISTRY}
REGISTRIES = {
    "policies": POLICY_REGISTRY,
    "models": MODEL_REGISTRY,
    "encoders": ENCODER_REGISTRY,
    "buffers": BUFFER_REGISTRY,
    "reward_models": REWARD_MODEL_REGISTRY,
    "world_models": WORLD_MODEL_REGISTRY,
    "environments": ENV_REGISTRY,
}
