"""Heads that turn features into the parameters of a distribution of continuous, or hybrid, actions.

Shapes: B samples, A discrete actions, D dimensions of a continuous action.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ding_lite.model.mlp import MLP

LOG_SIGMA_RANGE = (-20.0, 2.0)  # of 'conditioned': keeps exp and its gradient finite


class GaussianHead(nn.Module):
    """Features to a diagonal Gaussian: `{'mu', 'sigma'}`, both `[B, D]`.

    Args:
        sizes: of the features, of the hidden layers, and D.
        activation: see `ACTIVATIONS`.
        sigma_type: 'independent', parameters of its own that no observation changes; 'conditioned', computed as mu is;
            'fixed', the value below.
        fixed_sigma_value: sigma where it is 'fixed'.
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
