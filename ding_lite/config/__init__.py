"""Read, compile (merge, check, derive) and save a `(main_config, create_config)` pair."""

from ding_lite.config.config import (
    check_shapes,
    compile_config,
    divided_sizes,
    find_policy,
    read_config,
    read_saved_run,
    save_config,
)

__all__ = [
    "check_shapes",
    "compile_config",
    "divided_sizes",
    "find_policy",
    "read_config",
    "read_saved_run",
    "save_config",
]
