"""Pipelines and the command line. Names are resolved on first use, so that the command line answers at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ding_lite.entry.eval_entry import evaluate_checkpoint
    from ding_lite.entry.serial_entry import serial_pipeline

__all__ = ["evaluate_checkpoint", "serial_pipeline"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = {"evaluate_checkpoint": "eval_entry", "serial_pipeline": "serial_entry"}[name]
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
