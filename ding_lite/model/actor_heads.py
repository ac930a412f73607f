"""The head of a policy network, which depends on the kind of action.

Shapes: F features, A discrete actions or options of the largest branch, D branches of a multi-discrete action or
dimensions of a continuous one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.gaussian import GaussianHead, HybridHead
from ding_lite.model.mlp import MLP, ActionShape, HybridShape, single_size
from ding_lite.utils.registry import ConfigError, closest

ACTION_SPACES = ("discrete", "multi_discrete", "continuous", "hybrid")
SIGMA_TYPES = ("independent", "conditioned", "fixed")
BOUND_TYPES = (None, "tanh")
HYBRID_SHAPES = ("action_type_shape", "action_args_shape")


class BranchesHead(nn.Module):
    """Maps features to a logit for each branch of a multi-discrete action.

    Args:
        mlp: maps features to D A numbers.
        options: number of options of each branch; A is the largest.
    """

    lacking: Tensor

    def __init__(self, mlp: nn.Module, options: Sequence[int]) -> None:
        super().__init__()
        self.mlp = mlp
        lacking_DA = torch.arange(max(options)) >= torch.tensor(options)[:, None]
        self.register_buffer("lacking", lacking_DA, persistent=False)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return `branches` `[..., D, A]` for features `[..., F]`: -inf for options that a branch lacks."""
        logit_DA = self.mlp(x).unflatten(-1, self.lacking.shape)
        return {"branches": logit_DA.masked_fill(self.lacking, -torch.inf)}


def create_actor_head(
    inner: Sequence[int],
    action_shape: ActionShape | HybridShape,
    action_space: str,
    activation: Activation,
    sigma_type: str = "independent",
    fixed_sigma_value: float = 0.3,
    bound_type: str | None = None,
    norm_type: str | None = None,
) -> nn.Module:
    """Return the head for one kind of action.

    Args:
        inner: number of features, then the sizes of the hidden layers.
        action_shape: A for 'discrete'; a list of each branch's options for 'multi_discrete'; D for 'continuous'; for
            'hybrid' a dict of A and D, under DI-engine's keys `action_type_shape` and `action_args_shape`.
        action_space: 'discrete', 'multi_discrete', 'continuous' or 'hybrid'. As in DI-engine, 'discrete' with a list of
            several numbers is 'multi_discrete'.
        activation: see `Activation`.
        sigma_type: see `GaussianHead`.
        fixed_sigma_value: see `GaussianHead`.
        bound_type: see `GaussianHead`.
        norm_type: normalisation of the hidden layers, see `with_norm`.

    Raises:
        ConfigError: an argument has an unknown value, or the shape does not fit the kind of action.
    """
    check_choice("action_space", action_space, ACTION_SPACES)
    check_choice("sigma_type", sigma_type, SIGMA_TYPES)
    check_choice("bound_type", bound_type, BOUND_TYPES)

    def discrete(size: int) -> nn.Module:
        return MLP([*inner, size], activation, output=True, norm_type=norm_type)

    def continuous(size: int) -> nn.Module:
        return GaussianHead([*inner, size], activation, sigma_type, fixed_sigma_value, bound_type, norm_type)

    if action_space == "hybrid":
        num_types, num_args = hybrid_sizes(action_shape)
        return HybridHead(discrete(num_types), continuous(num_args))
    several = isinstance(action_shape, Sequence) and len(action_shape) > 1
    if action_space == "multi_discrete" or (action_space == "discrete" and several):
        options = branch_options(action_shape)
        return BranchesHead(discrete(len(options) * max(options)), options)
    size = single_size(action_shape, f" of a {action_space} action")
    return continuous(size) if action_space == "continuous" else discrete(size)


def branch_options(action_shape: Any) -> list[int]:
    """Return the `action_shape` of a multi-discrete action, the number of options of each branch, as a list.

    Raises:
        ConfigError: it is not a list of whole numbers.
    """
    given = action_shape if isinstance(action_shape, Sequence) else ()
    if not given or not all(isinstance(options, Integral) for options in given):
        raise ConfigError(f"policy.model.action_shape: expected a list of numbers of options, got {action_shape}.")
    return [int(options) for options in given]


def hybrid_sizes(action_shape: Any) -> tuple[int, int]:
    """Return the number of action types and the number of arguments, from the `action_shape` of a hybrid action.

    Raises:
        ConfigError: it is not a dict of DI-engine's keys `action_type_shape` and `action_args_shape`, each a number or
            a list of one number.
    """
    if not isinstance(action_shape, Mapping) or sorted(action_shape) != sorted(HYBRID_SHAPES):
        expected = f"a dict of {' and '.join(HYBRID_SHAPES)}"
        raise ConfigError(f"policy.model.action_shape of a hybrid action must be {expected}, got {action_shape}.")
    num_types, num_args = (single_size(action_shape[key], f".{key}") for key in HYBRID_SHAPES)
    return num_types, num_args


def check_choice(key: str, value: str | None, choices: Sequence[str | None], elsewhere: Mapping[str, str] = {}) -> None:
    """Check an argument of a model.

    Args:
        key: its name in `policy.model`.
        value: its value in the config.
        choices: the allowed values.
        elsewhere: values that other classes take, and a sentence that says which.

    Raises:
        ConfigError: the value is not one of the choices.
    """
    if value not in choices:
        words = [choice for choice in choices if choice is not None]
        names = ", ".join(str(choice) for choice in choices)
        place = elsewhere.get(str(value))
        hint = f" {place}" if place else closest(str(value), words)
        raise ConfigError(f"policy.model.{key} must be one of {names}, got '{value}'.{hint}")
