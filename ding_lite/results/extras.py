"""Imports the optional packages that statistics, pictures and sweeps need."""

from __future__ import annotations

import importlib
from typing import Any

from ding_lite.utils.registry import UserError


def load_extra(module: str, extra: str = "plot") -> Any:
    """Import a module that only an extra installs: scipy and matplotlib, unless another extra is named."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise UserError(f"{error.name} is not installed: pip install 'ding_lite[{extra}]'.") from None
