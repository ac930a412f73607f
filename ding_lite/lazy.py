"""Packages that import their public names on first use (PEP 562), so that a run loads only the modules it needs."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose names are imported on first use.

    The package's `__init__.py` imports its names in a block `if TYPE_CHECKING:`, where type checkers and editors find
    them. This function reads the same block.
    """
    blocks = [node.body for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: node.module or "" for node in imports for alias in node.names}
    names = sorted(module_of)

    def get_name(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module_of[name]), name)

    return names, get_name, lambda: names
