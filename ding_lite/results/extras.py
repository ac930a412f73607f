"""Imports the optional packages that statistics and pictures need."""

from __future__ import annotations

import importlib
from typing import Any

from ding_lite.utils.registry import UserError


def load_extra(module: str) -> Any:
    """Import a module of scipy or matplotlib, which only the extra `plot` installs.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise UserError(f"{error.name} is not installed: pip install 'ding_lite[plot]'.") from None
