"""Creates torch's optimizers for flat parameters, and restores their moments."""

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
    """A part of a network, and how to train it.

    Attributes:
        network: the module whose parameters are trained.
        learning_rate: a number, or a function from the number of steps so far to the learning rate; None:
            `policy.learn.learning_rate`.
        optimizer: a name in `OPTIMIZERS`, or a subclass of `torch.optim.Optimizer`.
        options: further keyword arguments of the optimizer's class, such as `betas`. `weight_decay` defaults to
            `policy.learn.weight_decay`, and `eps` of Adam and AdamW to `policy.learn.adam_eps`.
    """

    network: nn.Module
    learning_rate: Rate | None = None
    optimizer: str | type[torch.optim.Optimizer] = "adam"
    options: dict[str, Any] = {}


def create_optimizer(parameter: nn.Parameter, part: Trained, learn: EasyDict) -> torch.optim.Optimizer:
    """Create the optimizer of one part. It is a fused one if torch has a fused implementation.

    Args:
        parameter: the flat parameter of the part.
        part: how to train it.
        learn: the compiled `cfg.policy.learn`, with default values.

    Raises:
        ValueError: no optimizer has the name `part.optimizer`.
    """
    cls = OPTIMIZERS.get(part.optimizer) if isinstance(part.optimizer, str) else part.optimizer
    if cls is None:
        raise ValueError(f"optimizer: expected {', '.join(OPTIMIZERS)} or a class, got '{part.optimizer}'.")
    rate = learn.learning_rate if part.learning_rate is None else part.learning_rate
    known = inspect.signature(cls).parameters
    options: dict[str, Any] = {"weight_decay": learn.weight_decay, "fused": True}
    if issubclass(cls, torch.optim.Adam | torch.optim.AdamW):
        options["eps"] = learn.adam_eps
    options = {key: value for key, value in options.items() if key in known} | part.options
    return cls([parameter], lr=rate(0) if callable(rate) else rate, **options)  # type: ignore[call-arg]


def load_moments(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restore the moments of an optimizer. Its learning rate and other options do not change.

    Args:
        optimizer: the optimizer to change.
        state: what `state_dict` of an optimizer of the same class returned.

    Raises:
        ValueError: a moment does not have the shape of its parameter; torch does not check this.
    """
    optimizer.load_state_dict({**state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, moments in optimizer.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise ValueError(
                    f"the optimizer's {name}: expected shape {tuple(parameter.shape)}, got {tuple(value.shape)}: "
                    "the state belongs to another model or an older ding_lite; start from the model alone, with "
                    "policy.learn.resume_training=False"
                )
