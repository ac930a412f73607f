"""Reads, compiles, checks and saves configs. `config.py` explains what compiling means."""

from ding_lite.config.changes import changed_values
from ding_lite.config.config import (
    compile_config,
    divided_sizes,
    find_policy,
    format_config,
    read_config,
    read_limits,
    replace_values,
    save_config,
)
from ding_lite.config.saved import SavedRun, read_saved_run
from ding_lite.config.shapes import set_shapes

__all__ = [
    "SavedRun",
    "changed_values",
    "compile_config",
    "divided_sizes",
    "find_policy",
    "format_config",
    "read_config",
    "read_limits",
    "read_saved_run",
    "replace_values",
    "save_config",
    "set_shapes",
]
