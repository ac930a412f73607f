"""Packages that only some environments need: the extras of setup.py."""

from __future__ import annotations

import importlib
from types import ModuleType

from ding_lite.utils.registry import ConfigError


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Raises:
        ConfigError: it cannot be imported; the message names the extra that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"This environment needs the extra '{extra}' ({error}): pip install 'ding_lite[{extra}]'."
        ) from error
