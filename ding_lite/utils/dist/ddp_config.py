"""One config for one process, divided among several."""

from __future__ import annotations

import copy
from typing import Any

from easydict import EasyDict

from ding_lite.utils.dist.ranks import get_world_size
from ding_lite.utils.registry import ConfigError


def to_ddp_config(cfg: dict[str, Any]) -> EasyDict:
    """Copy a single-process config with its batch size and collect sizes divided by the world size.

    Raises:
        ConfigError: if one of them is not a multiple of the world size.
    """
    new, size = EasyDict(copy.deepcopy(dict(cfg))), get_world_size()
    for section, key in (("learn", "batch_size"), ("collect", "n_sample"), ("collect", "n_episode")):
        values = new.get("policy", {}).get(section, {})
        value = values.get(key)
        if not isinstance(value, int):
            continue  # unset, or of a wrong type, which compiling the config reports
        if value % size:
            raise ConfigError(
                f"policy.{section}.{key}={value} is shared by {size} processes: expected a multiple of {size}, "
                f"such as {-(-value // size) * size}."
            )
        values[key] = value // size
    return new
