"""Names of activation functions, also for torch's modules, which DI-engine's config files use.

Modules are recognised by their class and their `repr`, so that reading a config does not import torch.
"""

from __future__ import annotations

from typing import Any

from ding_lite.utils.key import show_value
from ding_lite.utils.registry import ConfigError, closest

NAMES = {"ReLU": "relu", "Tanh": "tanh", "GELU": "gelu", "ELU": "elu", "SiLU": "silu"}  # of torch's classes


def is_activation(value: Any) -> bool:
    """Return whether a value is an activation of torch: a module such as `nn.ReLU()`, or its class."""
    return _class_of(value).__module__ == "torch.nn.modules.activation"


def activation_name(value: Any, path: str = "policy.model.activation") -> str:
    """Return the name of an activation, such as 'relu' for itself, for `nn.ReLU` and for `nn.ReLU()`.

    Args:
        value: a name, a module of torch, or its class.
        path: dotted key of the value, for the message.

    Raises:
        ConfigError: none of the names stands for it, such as for a module with other options than the default.
    """
    if isinstance(value, str) and value in NAMES.values():
        return value
    cls = _class_of(value)
    name = NAMES.get(cls.__name__) if is_activation(value) else None
    if name and (value is cls or repr(value) in (repr(cls()), "ReLU(inplace=True)")):
        return name
    hint = closest(value, NAMES.values()) if isinstance(value, str) else ""
    got = f"'{value}'" if isinstance(value, str) else show_value(value)
    raise ConfigError(f"{path} must be one of {', '.join(NAMES.values())}, got {got}.{hint}")


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)
