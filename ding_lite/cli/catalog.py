"""The names that a config can use, as text for the terminal."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from typing import Any

from ding_lite.results.table import fold_text
from ding_lite.utils.registry import (
    BUFFER_REGISTRY,
    ENCODER_REGISTRY,
    ENV_REGISTRY,
    MODEL_REGISTRY,
    POLICY_REGISTRY,
    ConfigError,
)

REGISTRIES = {
    "policies": POLICY_REGISTRY,
    "models": MODEL_REGISTRY,
    "encoders": ENCODER_REGISTRY,
    "buffers": BUFFER_REGISTRY,
    "environments": ENV_REGISTRY,
}
NARROWEST = 20  # columns of a folded summary, on a terminal that is narrower than its names

SOURCES = {"replay": "from replay", "collect": "on-policy", "dataset": "from a data set"}


def describe(kind: str, width: int | None = None) -> str:
    """Return a heading, and each name of a kind with a summary.

    Args:
        kind: a key of `REGISTRIES`.
        width: number of columns. Longer lines are folded, and their continuations indented; None: no limit.
    """
    missing = _import_dizoo() if kind == "environments" else []
    names = sorted(REGISTRIES[kind].items())
    longest = max((len(name) for name, _ in names), default=0)
    lines = [_fold(f"  {name:<{longest}}  ", _summary(kind, cls), width) for name, cls in names]
    return "\n".join([kind, *lines, *(_fold("  ", line, width) for line in missing)])


def _fold(start: str, text: str, width: int | None) -> str:
    """Return a line, folded if it is longer than `width`; its continuations are indented further than `text`."""
    if width is None or len(start + text) <= width:
        return start + text
    indent = "\n" + " " * (len(start) + 2)
    return start + fold_text(text, max(width - len(start) - 2, NARROWEST)).replace("\n", indent)


def _summary(kind: str, cls: Any) -> str:
    if kind == "policies":
        return f"{_spaces(cls.action_spaces)}; learns {SOURCES[cls.learns_from]}"
    if kind == "environments":
        return f"import_names=['{cls.__module__}']"
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _spaces(spaces: Iterable[type]) -> str:
    names = [space.__name__ for space in spaces]
    return "any actions" if names == ["Space"] else ", ".join(names)


def _import_dizoo() -> list[str]:
    """Import dizoo's environments; return a line for each that needs a package that is not installed."""
    dizoo, missing = importlib.import_module("dizoo"), []  # user land, which this package does not depend on
    for module in pkgutil.walk_packages(dizoo.__path__, "dizoo."):
        if module.name.endswith("_env"):
            try:
                importlib.import_module(module.name)
            except (ImportError, ConfigError) as error:
                missing.append(f"{module.name}: {error}")
    return missing
