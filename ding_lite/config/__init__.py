"""Reads, compiles, checks and saves configs. `config.py` explains what compiling means.

A mistake raises `ConfigError`, whose message names the key, what was expected and found, and what to do.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.config.config import compile_config as compile_config
    from ding_lite.config.config import find_policy as find_policy
    from ding_lite.config.config import format_config as format_config
    from ding_lite.config.config import read_config as read_config
    from ding_lite.config.config import read_file as read_file
    from ding_lite.config.config import read_pair as read_pair
    from ding_lite.config.config import replace_values as replace_values
    from ding_lite.config.config import save_config as save_config
    from ding_lite.config.saved import SavedRun as SavedRun
    from ding_lite.config.saved import changed_values as changed_values
    from ding_lite.config.saved import read_saved_run as read_saved_run
    from ding_lite.config.shapes import set_shapes as set_shapes
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
