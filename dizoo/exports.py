"""The dicts of config files as names of their package, as in DI-engine."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class ConfigPackage(ModuleType):
    """A package in which `NAME_config` and `NAME_create_config` are the dicts of the file `NAME_config.py` below it.

    Python binds an imported module to its package: there, too, the dict takes its place. The module itself is found by
    `from PACKAGE.NAME_config import main_config` and by `importlib.import_module`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, vars(value).get(name, value) if isinstance(value, ModuleType) else value)

    def __getattr__(self, name: str) -> Any:
        file = name.replace("_create_config", "_config") + ".py"
        folder = Path(self.__path__[0])
        found = sorted(folder.rglob(file)) if name.endswith("_config") else []
        if not found:
            raise AttributeError(f"Package '{self.__name__}' has no config '{name}'.")
        module = ".".join((self.__name__, *found[0].relative_to(folder).with_suffix("").parts))
        value = vars(importlib.import_module(module)).get(name)
        if value is None:
            raise AttributeError(f"Module '{module}' has no dict '{name}'.")
        return value


def export_configs(package: str) -> None:
    """Make a package a `ConfigPackage`."""
    sys.modules[package].__class__ = ConfigPackage
