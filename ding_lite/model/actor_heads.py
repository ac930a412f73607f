"""The head of a policy network, which depends on the kind of action.

Shapes: A discrete actions, D dimensions of a continuous action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ding_lite.model.gaussian import GaussianHead, HybridHead
from ding_lite.model.mlp import MLP, ActionShape, single_size
from ding_lite.utils.registry import ConfigError, closest

ACTION_SPACES = ("discrete", "continuous", "hybrid")
SIGMA_TYPES = ("independent", "conditioned", "fixed")
BOUND_TYPES = (None, "tanh")
HYBRID_SHAPES = ("action_type_shape", "action_args_shape")


def create_actor_head(
    inner: Sequence[int],
    action_shape: ActionShape | Mapping[str, int],
    action_space: str,
    activation: str,
    sigma_type: str = "independent",
    fixed_sigma_value: float = 0.3,
    bound_type: str | None = None,
) -> nn.Module:
    """Return the head for one kind of action.

    Args:
        inner: number of features, then the sizes of the hidden layers.
        action_shape: A for 'discrete', D for 'continuous'; for 'hybrid' a dict of both, under DI-engine's keys
            `action_type_shape` and `action_args_shape`.
        action_space: 'discrete', 'continuous' or 'hybrid'.
        activation: a key of `ACTIVATIONS`.
        sigma_type: see `GaussianHead`.
        fixed_sigma_value: see `GaussianHead`.
        bound_type: see `GaussianHead`.

    Raises:
        ConfigError: an argument has an unknown value, or the shape does not fit the kind of action.
    """
    check_choice("action_space", action_space, ACTION_SPACES)
    check_choice("sigma_type", sigma_type, SIGMA_TYPES)
    check_choice("bound_type", bound_type, BOUND_TYPES)

    def discrete(size: int) -> nn.Module:
        return MLP([*inner, size], activation, output=True)

    def continuous(size: int) -> nn.Module:
        return GaussianHead([*inner, size], activation, sigma_type, fixed_sigma_value, bound_type)

    if action_space == "hybrid":
        num_types, num_args = hybrid_sizes(action_shape)
        return HybridHead(discrete(num_types), continuous(num_args))
    size = single_size(action_shape, f" of a {action_space} action")
    return continuous(size) if action_space == "continuous" else discrete(size)


def hybrid_sizes(action_shape: Any) -> tuple[int, int]:
    """Return the number of action types and the number of arguments, from the `action_shape` of a hybrid action.

    Raises:
        ConfigError: it is not a dict of DI-engine's keys `action_type_shape` and `action_args_shape`.
    """
    if not isinstance(action_shape, Mapping) or sorted(action_shape) != sorted(HYBRID_SHAPES):
        expected = f"a dict of {' and '.join(HYBRID_SHAPES)}"
        raise ConfigError(f"policy.model.action_shape of a hybrid action must be {expected}, got {action_shape}.")
    return action_shape[HYBRID_SHAPES[0]], action_shape[HYBRID_SHAPES[1]]


def check_choice(key: str, value: str | None, choices: Sequence[str | None]) -> None:
    """Check an argument of a model.

    Args:
        key: its name in `policy.model`.
        value: its value in the config.
        choices: the allowed values.

    Raises:
        ConfigError: the value is not one of the choices.
    """
    if value not in choices:
        words = [choice for choice in choices if choice is not None]
        names = ", ".join(str(choice) for choice in choices)
        raise ConfigError(f"policy.model.{key} must be one of {names}, got '{value}'.{closest(str(value), words)}")
