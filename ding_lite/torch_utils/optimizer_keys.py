"""The config keys of an optimizer, which policies and reward models have in common, and their contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError

OPTIMIZER_KEYS: dict[str, Any] = dict(
    optimizer=Key(
        "adam",
        "algorithm: 'adam', 'adamw' (Adam with decoupled weight decay), 'rmsprop' or 'sgd'",
        choices=("adam", "adamw", "rmsprop", "sgd"),
    ),
    learning_rate=Key(0.001, "step size", low=0, high=10**6),
    betas=Key(
        None,
        "decay rates of the two moments of Adam and AdamW; None: [0.9, 0.999]",
        type=list[float],
        low=0,
        below=1,
    ),
    adam_eps=Key(
        1e-8,
        "epsilon of Adam, AdamW and RMSprop: where gradients are smaller than it, steps shrink with them",
        low=0,
        high=1,
    ),
    momentum=Key(0.0, "momentum of SGD and RMSprop; 0: none", low=0, below=1),
    weight_decay=Key(
        0.0,
        "L2 penalty; with 'adamw' each step subtracts this share of a parameter times the learning rate",
        low=0,
        high=10**6,
    ),
    grad_clip_type=Key(
        None,
        "'clip_norm' or 'clip_value', applied to the averaged gradient",
        choices=(None, "clip_norm", "clip_value"),
    ),
    grad_clip_value=Key(0.5, "bound of the gradient's norm or of its elements", low=0),
)
# Options that only some optimizers have, and their names.
USED_BY = {"betas": ("adam", "adamw"), "adam_eps": ("adam", "adamw", "rmsprop"), "momentum": ("rmsprop", "sgd")}


def check_optimizer(section: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Check the optimizer's keys of a config against each other.

    Args:
        section: dotted name of the section that has the keys, for messages.
        given: the section of the compiled config.
        defaults: the same keys with their default values.

    Raises:
        ConfigError: an option does not belong to the optimizer, or `betas` is not a pair.
    """
    for key, names in USED_BY.items():
        if given[key] != defaults[key] and given["optimizer"] not in names:
            choices = " or ".join(f"'{name}'" for name in names)
            raise ConfigError(
                f"{section}.{key}={given[key]} has no effect with {section}.optimizer='{given['optimizer']}': leave it "
                f"out, or set optimizer to {choices}."
            )
    if given["betas"] is not None and len(given["betas"]) != 2:
        raise ConfigError(f"{section}.betas: expected two numbers such as [0.9, 0.999], got {given['betas']}.")
