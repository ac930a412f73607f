"""Divides the sizes of a single-process config by the number of processes."""

from __future__ import annotations

import copy
from typing import Any

from easydict import EasyDict

from ding_lite.utils.ranks.ranks import get_world_size
from ding_lite.utils.ranks.shares import SHARED_SIZES, divide


def to_ddp_config(cfg: dict[str, Any]) -> EasyDict:
    """Return a copy of a single-process config whose batch size and collect sizes are divided by the world size.

    Args:
        cfg: a `main_config`; it is not changed.

    Raises:
        ConfigError: one of the sizes is not a multiple of the world size.
    """
    new, size = EasyDict(copy.deepcopy(dict(cfg))), get_world_size()
    for path in SHARED_SIZES:
        _, section, key = path.split(".")
        values = new.get("policy", {}).get(section, {})
        if isinstance(values.get(key), int):  # otherwise it is unset, or has a wrong type, which is reported later
            values[key] = divide(path, values[key], size)
    return new
