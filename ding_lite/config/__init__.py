"""Read, compile (merge, check, derive) and save a `(main_config, create_config)` pair."""

from ding_lite.config.config import check_shapes, compile_config, read_config, save_config

__all__ = ["check_shapes", "compile_config", "read_config", "save_config"]
