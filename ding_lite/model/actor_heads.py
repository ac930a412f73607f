"""Heads that turn features into the parameters of a distribution of actions.

Shapes: B samples, A discrete actions, D dimensions of a continuous action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import ConfigError, closest

ACTION_SPACES = ("discrete", "continuous", "hybrid")
SIGMA_TYPES = ("independent", "conditioned", "fixed")
BOUND_TYPES = (None, "tanh")
LOG_SIGMA_RANGE = (-20.0, 2.0)  # of 'conditioned': keeps exp and its gradient finite
HYBRID_SHAPES = ("action_type_shape", "action_args_shape")


class GaussianHead(nn.Module):
    """Features to a diagonal Gaussian: `{'mu', 'sigma'}`, both `[B, D]`.

    Args:
        sizes: of the features, of the hidden layers, and D.
        activation: see `mlp.ACTIVATIONS`.
        sigma_type: 'independent': parameters that do not depend on the observation; 'conditioned': computed from the
            features, as mu is; 'fixed': the value below.
        fixed_sigma_value: sigma if it is 'fixed'.
        bound_type: 'tanh' keeps mu within -1..1.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        sigma_type: str = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: str | None = None,
    ) -> None:
        super().__init__()
        self._sigma_type, self._fixed_sigma, self._bound = sigma_type, fixed_sigma_value, bound_type is not None
        *inner, size_out = sizes
        if sigma_type == "independent":
            self.log_sigma_param = nn.Parameter(torch.zeros(1, size_out))
        # one matrix for mu and log sigma
        self.mlp = MLP([*inner, size_out * (2 if sigma_type == "conditioned" else 1)], activation, output=True)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        mu = self.mlp(x)
        if self._sigma_type == "conditioned":
            mu, log_sigma = mu.chunk(2, dim=-1)
            sigma = log_sigma.clamp(*LOG_SIGMA_RANGE).exp()
        elif self._sigma_type == "independent":
            sigma = self.log_sigma_param.exp().expand_as(mu)
        else:
            sigma = torch.full_like(mu, self._fixed_sigma)
        return {"mu": torch.tanh(mu) if self._bound else mu, "sigma": sigma}


class HybridHead(nn.Module):
    """Features to `{'action_type': logit [B, A], 'action_args': {'mu', 'sigma'}}`, through a head for each."""

    def __init__(self, action_type: nn.Module, action_args: nn.Module) -> None:
        super().__init__()
        self.action_type, self.action_args = action_type, action_args

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"action_type": self.action_type(x), "action_args": self.action_args(x)}


def create_actor_head(
    inner: Sequence[int],
    action_shape: int | Mapping[str, int],
    action_space: str,
    activation: str,
    sigma_type: str = "independent",
    fixed_sigma_value: float = 0.3,
    bound_type: str | None = None,
) -> nn.Module:
    """Return the head for one kind of action.

    Args:
        inner: sizes of the features and of the hidden layers.
        action_shape: A of 'discrete', D of 'continuous', for 'hybrid' both under DI-engine's keys `action_type_shape`
            and `action_args_shape`.
        action_space: 'discrete', 'continuous' or 'hybrid'.
        activation: see `mlp.ACTIVATIONS`.
        sigma_type: see `GaussianHead`, as the next two.
        fixed_sigma_value: sigma if it is 'fixed'.
        bound_type: None or 'tanh'.

    Raises:
        ConfigError: an unknown word, or a shape that does not fit this kind of action.
    """
    _check_choice("action_space", action_space, ACTION_SPACES)
    _check_choice("sigma_type", sigma_type, SIGMA_TYPES)
    _check_choice("bound_type", bound_type, BOUND_TYPES)

    def discrete(size: int) -> nn.Module:
        return MLP([*inner, size], activation, output=True)

    def continuous(size: int) -> nn.Module:
        return GaussianHead([*inner, size], activation, sigma_type, fixed_sigma_value, bound_type)

    if action_space == "hybrid":
        if not isinstance(action_shape, Mapping) or sorted(action_shape) != sorted(HYBRID_SHAPES):
            expected = f"a dict of {' and '.join(HYBRID_SHAPES)}"
            raise ConfigError(f"policy.model.action_shape of a hybrid action must be {expected}, got {action_shape}.")
        return HybridHead(discrete(action_shape[HYBRID_SHAPES[0]]), continuous(action_shape[HYBRID_SHAPES[1]]))
    if not isinstance(action_shape, int):
        raise ConfigError(
            f"policy.model.action_shape of a {action_space} action must be a whole number, got {action_shape}."
        )
    return continuous(action_shape) if action_space == "continuous" else discrete(action_shape)


def _check_choice(key: str, value: str | None, choices: Sequence[str | None]) -> None:
    """Raise `ConfigError` if `value` of `policy.model.<key>` is not one of `choices`."""
    if value not in choices:
        words = [choice for choice in choices if choice is not None]
        names = ", ".join(str(choice) for choice in choices)
        raise ConfigError(f"policy.model.{key} must be one of {names}, got '{value}'.{closest(str(value), words)}")
