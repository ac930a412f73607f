"""Creates torch's optimizers for flat parameters, restores their moments, and declares and checks their config keys.

`Coefficient` is a positive number that an optimizer learns, such as the weight of a term in a loss.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from easydict import EasyDict
from torch import Tensor, nn

from ding_lite.torch_utils.data import Figures
from ding_lite.utils.key import Key
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.schedule import Scheduled

Loss = Callable[[dict[str, Any]], tuple[Tensor, Figures]]  # (batch) -> (loss, detached figures)
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
LEARNING_RATE = Key(0.001, "step size", low=0, high=10**6)
OPTIMIZER_KEYS: dict[str, Any] = dict(
    optimizer=Key(
        "adam",
        "algorithm: 'adam', 'adamw' (Adam with decoupled weight decay), 'rmsprop' or 'sgd'",
        choices=tuple(OPTIMIZERS),
    ),
    betas=Key(
        None, "decay rates of the two moments of Adam and AdamW; None: [0.9, 0.999]", type=list[float], low=0, below=1
    ),
    adam_eps=Key(
        1e-8,
        "epsilon of Adam, AdamW and RMSprop: where gradients are smaller than it, steps shrink with them",
        low=0,
        high=1,
    ),
    momentum=Key(0.0, "momentum of SGD and RMSprop; 0: none", low=0, below=1, needs="optimizer=rmsprop|sgd"),
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
    grad_clip_value=Key(0.5, "bound of the gradient's norm or of its elements", low=0, needs="grad_clip_type"),
)
# Options that only some optimizers have, and their names.
USED_BY = {"betas": ("adam", "adamw"), "adam_eps": ("adam", "adamw", "rmsprop"), "momentum": ("rmsprop", "sgd")}


class Trained(NamedTuple):
    """A part of a network, and how to train it. What is left out is as the keys of `policy.learn` say."""

    network: nn.Module
    learning_rate: float | None = None  # the optimizer follows it if it is `Scheduled`
    optimizer: str | type[torch.optim.Optimizer] | None = None  # a name in `OPTIMIZERS`, or a class
    options: dict[str, Any] = {}  # further arguments of this class, such as `betas`; a number may be `Scheduled`


def create_optimizer(
    parameter: nn.Parameter, part: Trained, learn: EasyDict
) -> tuple[torch.optim.Optimizer, dict[str, Scheduled]]:
    """Return the optimizer of one part, fused if torch has a fused implementation; and its options with a schedule."""
    kind = part.optimizer or learn.optimizer
    cls = OPTIMIZERS.get(kind) if isinstance(kind, str) else kind
    if cls is None:
        raise ValueError(f"optimizer: expected {', '.join(OPTIMIZERS)} or a class, got '{kind}'.")
    wanted, known = {"weight_decay": learn.weight_decay, "fused": True}, inspect.signature(cls).parameters
    options: dict[str, Any] = {key: value for key, value in wanted.items() if key in known}
    for key, names in USED_BY.items():
        if learn.get(key) is not None and issubclass(cls, tuple(OPTIMIZERS[name] for name in names)):
            value = learn[key]
            options[key.removeprefix("adam_")] = tuple(map(float, value)) if key == "betas" else value
    options |= part.options
    options["lr"] = learn.learning_rate if part.learning_rate is None else part.learning_rate
    changing = {key: value for key, value in options.items() if isinstance(value, Scheduled)}
    return cls([parameter], **options | {key: value.current() for key, value in changing.items()}), changing


def load_moments(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restore the moments of an optimizer. Its learning rate and other options remain those of the config.

    Moments that it has already stay where they are, because a CUDA graph may use them.

    Raises:
        ValueError: the state is of another kind of optimizer, or a moment does not have the shape of its parameter;
            torch checks neither.
    """
    groups = (optimizer.param_groups[0], state["param_groups"][0])
    # the options that determine which moments an optimizer keeps
    own, saved = (", ".join(key for key in ("betas", "alpha", "momentum") if group.get(key)) for group in groups)
    if own != saved:
        raise ValueError(
            f"the optimizer has the moments of {own or 'SGD'}, and the state those of {saved or 'SGD'}: set "
            "policy.learn.optimizer and policy.learn.momentum as they were; or start from the model alone, with "
            "policy.learn.resume_training=False"
        )
    held = {parameter: dict(moments) for parameter, moments in optimizer.state.items()}
    optimizer.load_state_dict({**state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, moments in optimizer.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise ValueError(
                    f"the optimizer's {name}: expected shape {tuple(parameter.shape)}, got {tuple(value.shape)}: "
                    "the state belongs to another model or an older ding_lite; start from the model alone, with "
                    "policy.learn.resume_training=False"
                )
            place = held.get(parameter, {}).get(name)
            if isinstance(place, Tensor):
                moments[name] = place.copy_(value)


def check_optimizer(section: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if an option of a config does not belong to the optimizer, or `betas` is not a pair."""
    for key, names in USED_BY.items():
        if given.get(key, defaults[key]) != defaults[key] and given["optimizer"] not in names:
            choices = " or ".join(f"'{name}'" for name in names)
            raise ConfigError(
                f"{section}.{key}={given[key]} has no effect with {section}.optimizer='{given['optimizer']}': leave it "
                f"out, or set optimizer to {choices}."
            )
    if given["betas"] is not None and len(given["betas"]) != 2:
        raise ConfigError(f"{section}.betas: expected two numbers such as [0.9, 0.999], got {given['betas']}.")


class Coefficient(nn.Module):
    """A positive number that is learned as its logarithm, or as itself.

    Args:
        value: the initial number.
        log_space: learn the logarithm. Otherwise a step may make the learned number negative; it then counts as 0, and
            `bound` makes it 0.

    Attributes:
        learned: `[1]`, the logarithm or the number.
    """

    def __init__(self, value: float, log_space: bool = True) -> None:
        super().__init__()
        self._log_space = log_space
        self.learned = nn.Parameter(self._to_learned(value))

    def _to_learned(self, value: float) -> Tensor:
        return torch.tensor([math.log(value) if self._log_space else value])

    def forward(self) -> Tensor:
        """Return the number, a scalar."""
        return self.learned[0].exp() if self._log_space else self.learned[0].clamp(min=0.0)

    @torch.no_grad()
    def set(self, value: float) -> None:
        """Replace the number, for instance by that of a schedule."""
        self.learned.copy_(self._to_learned(value))

    @torch.no_grad()
    def bound(self) -> None:
        """Set a negative number to 0; call this after each step.

        A loss that does not see that it counts as 0, such as SAC's, would lower it further and further.
        """
        if not self._log_space:
            self.learned.clamp_(min=0.0)
