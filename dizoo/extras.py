"""Optional packages that only some environments need; they are the extras of setup.py."""

from __future__ import annotations

import importlib
from types import ModuleType

from ding_lite.utils.registry import ConfigError


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package and return it.

    Args:
        module: dotted name of the module.
        extra: name of the extra in setup.py that installs the package.

    Raises:
        ConfigError: the module cannot be imported; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"This environment needs the extra '{extra}' ({error}): pip install 'ding_lite[{extra}]'."
        ) from error
