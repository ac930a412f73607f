"""The defaults of a policy class, merged over its bases, and checks of the keys that all policies have."""

from __future__ import annotations

import functools
from typing import Any

from easydict import EasyDict

from ding_lite.torch_utils.data_parallel import check_data_parallel
from ding_lite.utils.registry import ConfigError


def merge_defaults(cls: type) -> EasyDict:
    """Return the `config` of a class over those of its bases, less the keys that `config_without` names."""
    merged: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        _merge(merged, vars(base).get("config", {}))
        for path in vars(base).get("config_without", ()):
            *sections, key = path.split(".")
            functools.reduce(dict.__getitem__, sections, merged).pop(key)
    return EasyDict(merged)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = EasyDict(value) if isinstance(value, dict) else value


def check_common_keys(policy: EasyDict, defaults: EasyDict) -> None:
    """Check the keys of `cfg.policy` that every policy has.

    Raises:
        ConfigError: if a value is unknown, out of range, or contradicts another one.
    """
    if policy.precision not in ("float32", "bf16"):
        raise ConfigError(f"policy.precision must be 'float32' or 'bf16', got '{policy.precision}'.")
    if policy.learn.grad_clip_type not in (None, "clip_norm", "clip_value"):
        got = policy.learn.grad_clip_type
        raise ConfigError(f"policy.learn.grad_clip_type must be 'clip_norm', 'clip_value' or None, got '{got}'.")
    if policy.learn.on_nonfinite not in ("stop", "skip"):
        raise ConfigError(f"policy.learn.on_nonfinite must be 'stop' or 'skip', got '{policy.learn.on_nonfinite}'.")
    for key in ("keep_ckpt", "check_ranks_after_iter"):
        if (value := policy.learn.learner.hook[key]) < 0:
            raise ConfigError(f"policy.learn.learner.hook.{key} must be 0 or more, got {value}.")
    check_data_parallel(policy, defaults.ddp)
    for key in ("on_policy", "offline"):
        if policy[key] != defaults[key]:
            raise ConfigError(f"policy.{key} cannot be set: of '{policy.type}' it is {not policy[key]}.")
