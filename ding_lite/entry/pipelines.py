"""Which pipeline trains which kind of policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ding_lite import entry
from ding_lite.config.config import pipeline_of
from ding_lite.entry.cli import MODES
from ding_lite.utils.registry import ConfigError

LEARNS = {
    "serial_pipeline": "from a replay buffer",
    "serial_pipeline_onpolicy": "on-policy, without a replay buffer",
    "serial_pipeline_offline": "from a data set, without playing",
}


def find_pipeline(policy_cfg: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the pipeline that trains this policy; `policy_cfg` is a compiled or saved config's `policy`."""
    return getattr(entry, pipeline_of(policy_cfg))


def check_pipeline(policy_cfg: Mapping[str, Any], pipeline: str) -> None:
    """Raise `ConfigError` if the policy belongs into another pipeline than this one."""
    right = pipeline_of(policy_cfg)
    if right != pipeline:
        mode = next(mode for mode, name in MODES.items() if name == right)
        raise ConfigError(
            f"Policy '{policy_cfg['type']}' learns {LEARNS[right]}: use {right}(...), or 'ding_lite -m {mode}'."
        )
