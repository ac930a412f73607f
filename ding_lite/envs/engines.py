"""Finds the engine that plays all environments at once, for the managers 'native' and 'env_pool'.

This module never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding_lite.envs.checks import find_id, given_id
from ding_lite.envs.env_pool import EnvPoolBuilder
from ding_lite.envs.gymnasium_engine import GymnasiumBuilder
from ding_lite.utils.registry import ConfigError

ENGINES = ("native", "env_pool")  # managers that play all environments at once


def find_engine(builder: Any, plain_if: Mapping[str, Any] | None, cfg_env: EasyDict) -> Any:
    """Return the object with the method `make_native` for the manager that the config names.

    Args:
        builder: builds one environment.
        plain_if: see `vector_env`; None if the environment is never a plain gymnasium id.
        cfg_env: the compiled `cfg.env`.

    Raises:
        ConfigError: there is no such engine, or an option of the environment is not one of the engine's.
    """
    native = cfg_env.manager.type == "native"
    if not native and hasattr(builder, "env_pool_task"):
        return builder.env_pool_task(cfg_env)
    spec: Any = find_id(cfg_env.env_id) if native and plain_if is not None else None
    if plain_if is None or (native and spec.vector_entry_point is None):
        raise ConfigError(
            f"env.manager.type is '{cfg_env.manager.type}', but '{cfg_env.type}' environments have no "
            f"{'engine of their own' if native else 'equivalent in envpool'}: set it to 'base' or 'subprocess'."
        )
    _check_plain(cfg_env, plain_if)
    return GymnasiumBuilder(spec) if native else EnvPoolBuilder(given_id(cfg_env.env_id))


def _check_plain(cfg_env: EasyDict, plain_if: Mapping[str, Any]) -> None:
    for key, value in plain_if.items():
        if cfg_env[key] != value:
            raise ConfigError(
                f"env.{key} is {cfg_env[key]!r}, which env.manager.type '{cfg_env.manager.type}' cannot do: set the "
                f"key to {value!r}, or the manager to 'base' or 'subprocess'."
            )
