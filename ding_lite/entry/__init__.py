"""Pipelines and the command line. Names are imported on first use, so that the command line responds quickly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ding_lite.entry.pipelines import PIPELINES

if TYPE_CHECKING:
    from ding_lite.entry.callbacks import Callback
    from ding_lite.entry.eval_entry import evaluate_checkpoint
    from ding_lite.entry.launcher.function import LaunchError, launch
    from ding_lite.entry.offline.demo_data import collect_demo_data
    from ding_lite.entry.offline.serial_entry_bc import serial_pipeline_bc
    from ding_lite.entry.offline.serial_entry_offline import serial_pipeline_offline
    from ding_lite.entry.pipelines import find_pipeline
    from ding_lite.entry.rollout_dataset import RolloutDataset
    from ding_lite.entry.rpc.serial_entry_rpc import serial_pipeline_rpc
    from ding_lite.entry.serial_entry import serial_pipeline
    from ding_lite.entry.serial_entry_onpolicy import serial_pipeline_onpolicy

MODULES = {
    "Callback": "callbacks",
    "LaunchError": "launcher.function",
    "RolloutDataset": "rollout_dataset",
    "collect_demo_data": "offline.demo_data",
    "evaluate_checkpoint": "eval_entry",
    "find_pipeline": "pipelines",
    "launch": "launcher.function",
    **{name: pipeline.module for name, pipeline in PIPELINES.items()},
}
__all__ = [
    "Callback",
    "LaunchError",
    "RolloutDataset",
    "collect_demo_data",
    "evaluate_checkpoint",
    "find_pipeline",
    "launch",
    "serial_pipeline",
    "serial_pipeline_bc",
    "serial_pipeline_offline",
    "serial_pipeline_onpolicy",
    "serial_pipeline_rpc",
]


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
