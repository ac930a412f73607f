"""ding_lite: config-driven reinforcement learning, on one process or many.

`load` and `train` are imported on first use, because they import torch, which worker processes of environments do
without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ding_lite.entry.agent import load
    from ding_lite.entry.training import train

__version__ = "0.1.0"
__all__ = ["__version__", "load", "train"]
MODULES = {"load": "agent", "train": "training"}  # below ding_lite.entry


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.entry.{MODULES[name]}"), name)
