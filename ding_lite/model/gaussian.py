"""Heads that turn features into the parameters of a distribution of continuous or hybrid actions.

Shapes: B samples, A discrete actions, D dimensions of a continuous action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.activations import Activation
from ding_lite.model.mlp import MLP

LOG_SIGMA_RANGE = (-20.0, 2.0)  # for 'conditioned': keeps exp and its gradient finite


class GaussianHead(nn.Module):
    """Maps features to `mu` and `sigma` of independent normal variables, one for each dimension of an action.

    Args:
        sizes: number of features, sizes of the hidden layers, D.
        activation: see `Activation`.
        sigma_type: 'independent': learned parameters that do not depend on the observation; 'conditioned': computed
            from the features, like mu; 'fixed': a constant.
        fixed_sigma_value: the constant.
        bound_type: 'tanh' keeps mu between -1 and 1; None: no bound.
        norm_type: normalisation of the hidden layers, see `with_norm`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Activation = "relu",
        sigma_type: str = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: str | None = None,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        self._sigma_type, self._fixed_sigma, self._bound = sigma_type, fixed_sigma_value, bound_type is not None
        *inner, size_out = sizes
        if sigma_type == "independent":
            self.log_sigma_param = nn.Parameter(torch.zeros(1, size_out))
        # if conditioned, the last layer computes mu and log sigma in one product
        number = size_out * (2 if sigma_type == "conditioned" else 1)
        self.mlp = MLP([*inner, number], activation, output=True, norm_type=norm_type)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return `mu` and `sigma`, both `[B, D]`, for features `[B, sizes[0]]`."""
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
    """Maps features to the distribution of a hybrid action, or to scores of its types and its arguments.

    Args:
        action_type: head of the discrete part.
        action_args: head of the continuous part; it returns a distribution, or the arguments themselves.
    """

    def __init__(self, action_type: nn.Module, action_args: nn.Module) -> None:
        super().__init__()
        self.action_type, self.action_args = action_type, action_args

    def forward(self, x: Tensor) -> dict[str, Any]:
        """Return `action_type`, a logit `[B, A]`, and `action_args`, such as a dict of `mu` and `sigma` `[B, D]`."""
        return {"action_type": self.action_type(x), "action_args": self.action_args(x)}
