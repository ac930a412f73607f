"""Torch's optimizers over flat parameters: which kind, at which rate, with which options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from easydict import EasyDict
from torch import Tensor, nn

Rate = float | Callable[[int], float]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}


class Trained(NamedTuple):
    """Some of the parameters that a loss trains, and how.

    Attributes:
        network: has these parameters.
        learning_rate: a number, or a function of the steps so far; None: `learn.learning_rate`.
        optimizer: a name of `OPTIMIZERS`, or a class of torch's kind.
        options: further keyword arguments of that class, such as `eps`; `weight_decay` is otherwise that of `learn`.
    """

    network: nn.Module
    learning_rate: Rate | None = None
    optimizer: str | type[torch.optim.Optimizer] = "adam"
    options: dict[str, Any] = {}


def create_optimizer(parameter: nn.Parameter, part: Trained, learn: EasyDict) -> torch.optim.Optimizer:
    """Return the optimizer of a flat parameter, a fused one where torch has it.

    Raises:
        ValueError: for an unknown name.
    """
    cls = OPTIMIZERS.get(part.optimizer) if isinstance(part.optimizer, str) else part.optimizer
    if cls is None:
        raise ValueError(f"expected an optimizer of {', '.join(OPTIMIZERS)}, or a class, got '{part.optimizer}'.")
    rate = learn.learning_rate if part.learning_rate is None else part.learning_rate
    known = inspect.signature(cls).parameters
    options: dict[str, Any] = {"weight_decay": learn.weight_decay, "fused": True}
    options = {key: value for key, value in options.items() if key in known} | part.options
    return cls([parameter], lr=rate(0) if callable(rate) else rate, **options)  # type: ignore[call-arg]


def load_moments(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restore the moments of an optimizer; its learning rate and other options stay as they are.

    Raises:
        ValueError: if a moment is not of its parameter's shape, which torch does not check.
    """
    optimizer.load_state_dict({**state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, moments in optimizer.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise ValueError(
                    f"the optimizer's {name} is of shape {tuple(value.shape)}, expected {tuple(parameter.shape)}: "
                    "it is another model's or an older ding_lite's; start from the model alone, with "
                    "policy.learn.resume_training=False"
                )
