"""Pipelines and the command line. Names are resolved on first use, so that the command line answers at once."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ding_lite.entry.eval_entry import evaluate_checkpoint
    from ding_lite.entry.serial_entry import serial_pipeline
    from ding_lite.entry.serial_entry_onpolicy import serial_pipeline_onpolicy

MODULES = {
    "evaluate_checkpoint": "eval_entry",
    "serial_pipeline": "serial_entry",
    "serial_pipeline_onpolicy": "serial_entry_onpolicy",
}
__all__ = ["evaluate_checkpoint", "serial_pipeline", "serial_pipeline_onpolicy"]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
