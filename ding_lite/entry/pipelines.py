"""The pipelines by name: where each one is, the command line's word for it, and which policies it trains."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError, closest


class Pipeline(NamedTuple):
    """What is known of a pipeline without importing it.

    Attributes:
        module: its module in `ding_lite.entry`.
        mode: the word after the command line's `-m`.
        learns: how the policies that it trains learn.
        relabels: whether a reward model may change what is learned from.
    """

    module: str
    mode: str
    learns: str
    relabels: bool = False


PIPELINES = {
    "serial_pipeline": Pipeline("serial_entry", "serial", "from a replay buffer", relabels=True),
    "serial_pipeline_onpolicy": Pipeline(
        "serial_entry_onpolicy", "serial_onpolicy", "on-policy, without a replay buffer", relabels=True
    ),
    "serial_pipeline_offline": Pipeline("offline.serial_entry_offline", "offline", "from a data set, without playing"),
    "serial_pipeline_bc": Pipeline("offline.serial_entry_bc", "bc", "from a data set, without playing"),
    "serial_pipeline_rpc": Pipeline("rpc.serial_entry_rpc", "rpc", "on-policy, from what observers play"),
}
MODES = {pipeline.mode: name for name, pipeline in PIPELINES.items()}


def load_pipeline(name: str) -> Callable[..., Any]:
    """Return the function of this name in `ding_lite.entry`.

    Raises:
        ConfigError: there is no such pipeline.
    """
    if name not in PIPELINES:
        raise ConfigError(f"Unknown pipeline '{name}'.{closest(name, PIPELINES)} Known: {', '.join(PIPELINES)}.")
    return getattr(importlib.import_module(f"ding_lite.entry.{PIPELINES[name].module}"), name)


def find_pipeline(policy_cfg: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the pipeline that trains a policy; `policy_cfg` is a compiled or saved config's `policy`."""
    return load_pipeline(POLICY_REGISTRY.find(policy_cfg["type"]).pipeline)


def check_pipeline(policy_cfg: Mapping[str, Any], pipeline: str) -> None:
    """Raise `ConfigError` unless the pipeline of this name is the one that the policy's class names."""
    right = POLICY_REGISTRY.find(policy_cfg["type"]).pipeline
    if right != pipeline:
        load_pipeline(right)
        raise ConfigError(
            f"Policy '{policy_cfg['type']}' learns {PIPELINES[right].learns}: use {right}(...), or 'ding_lite -m "
            f"{PIPELINES[right].mode}', which leaving out -m means too."
        )


def check_reward_model(cfg: Mapping[str, Any], pipeline: str) -> None:
    """Raise `ConfigError` if a config names a reward model, and the pipeline of this name has no place for it."""
    if "reward_model" in cfg and not PIPELINES[pipeline].relabels:
        places = " and ".join(name for name, each in PIPELINES.items() if each.relabels)
        raise ConfigError(
            f"{pipeline} does not use a reward model, only {places} do: leave create_config.reward_model out."
        )
