"""Heads that turn features into an action, or into the parameters of its distribution.

Shapes: B samples, F features, A discrete actions or options of the largest branch, D branches of a multi-discrete
action or dimensions of a continuous one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ding_lite.model.arguments import ActionShape, HybridShape, branch_options, check_choice, hybrid_sizes, single_size
from ding_lite.model.mlp import MLP
from ding_lite.utils.registry import ConfigError

ACTION_SPACES = ("discrete", "multi_discrete", "continuous", "hybrid")
SigmaType = Literal["independent", "scalar", "conditioned", "fixed"]
BoundType = Literal["tanh", None]
LOG_SIGMA_RANGE = (-20.0, 2.0)  # range for 'conditioned': keeps exp and its gradient finite
LEAST_SIGMA = 1e-3  # for 'scalar', whose parameter an update may make negative


class GaussianHead(nn.Module):
    """Maps features to `mu` and `sigma` of independent normal variables, one for each dimension of an action.

    Args:
        sizes: number of features, sizes of the hidden layers, D.
        sigma_type: 'independent': exp of learned parameters that do not depend on the observation; 'scalar': these
            parameters themselves, or `LEAST_SIGMA` if they are smaller; 'conditioned': computed from the features, like
            mu; 'fixed': the constant `fixed_sigma_value`.
        fixed_sigma_value: see above.
        bound_type: 'tanh' keeps mu between -1 and 1; None: no bound.
        init_sigma: the first sigma, if it is 'independent' or 'scalar'; None: that of `reset_sigma`, at first 1.
        **layers: activation and normalisation, see `MLP`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        sigma_type: SigmaType = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: BoundType = None,
        init_sigma: float | None = None,
        **layers: Any,
    ) -> None:
        super().__init__()
        self._sigma_type, self._fixed_sigma, self._bound = sigma_type, fixed_sigma_value, bound_type is not None
        self._init_sigma = init_sigma
        *inner, size_out = sizes
        if sigma_type == "independent":
            self.log_sigma_param = nn.Parameter(torch.zeros(1, size_out))
        elif sigma_type == "scalar":
            self.sigma_param = nn.Parameter(torch.ones(1, size_out))
        self.reset_sigma(1.0)
        # if conditioned, the last layer computes mu and log sigma in one product
        number = size_out * (2 if sigma_type == "conditioned" else 1)
        self.mlp = MLP([*inner, number], output=True, **layers)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return `mu` and `sigma`, both `[B, D]`, for features `[B, sizes[0]]`."""
        mu = self.mlp(x)
        if self._sigma_type == "conditioned":
            mu, log_sigma = mu.chunk(2, dim=-1)
            sigma = log_sigma.clamp(*LOG_SIGMA_RANGE).exp()
        elif self._sigma_type == "independent":
            sigma = self.log_sigma_param.exp().expand_as(mu)
        elif self._sigma_type == "scalar":
            sigma = self.sigma_param.clamp(min=LEAST_SIGMA).detach()
            # adds 0: below the bound, the gradient of a plain clamp would be 0, and sigma could never grow again
            sigma = (sigma + (self.sigma_param - self.sigma_param.detach())).expand_as(mu)
        else:
            sigma = torch.full_like(mu, self._fixed_sigma)
        return {"mu": torch.tanh(mu) if self._bound else mu, "sigma": sigma}

    @torch.no_grad()
    def reset_sigma(self, sigma: float) -> None:
        """Set a learned sigma that does not depend on the observation to `init_sigma`, or without it to this one."""
        sigma = sigma if self._init_sigma is None else self._init_sigma
        if self._sigma_type == "independent":
            self.log_sigma_param.fill_(math.log(sigma))
        elif self._sigma_type == "scalar":
            self.sigma_param.fill_(sigma)


class HybridHead(nn.Module):
    """Maps features to the distribution of a hybrid action, or to scores of its types and its arguments."""

    def __init__(self, action_type: nn.Module, action_args: nn.Module) -> None:
        super().__init__()
        self.action_type, self.action_args = action_type, action_args

    def forward(self, x: Tensor) -> dict[str, Any]:
        """Return `action_type`, a logit `[B, A]`, and `action_args`, such as a dict of `mu` and `sigma` `[B, D]`."""
        return {"action_type": self.action_type(x), "action_args": self.action_args(x)}


class BranchesHead(nn.Module):
    """Maps features to a logit for each branch, with these numbers of options; `mlp` returns D A numbers."""

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
    sigma_type: SigmaType = "independent",
    fixed_sigma_value: float = 0.3,
    bound_type: BoundType = None,
    init_sigma: float | None = None,
    **layers: Any,
) -> nn.Module:
    """Return the head for one kind of action.

    Args:
        inner: number of features, then the sizes of the hidden layers.
        action_shape: A for 'discrete'; a list of each branch's options for 'multi_discrete'; D for 'continuous'; for
            'hybrid' a dict of A and D, under DI-engine's keys `action_type_shape` and `action_args_shape`.
        action_space: one of `ACTION_SPACES`. As in DI-engine, 'discrete' with a list of several numbers is
            'multi_discrete'.
        sigma_type: see `GaussianHead` for this and the following.
        fixed_sigma_value: see there.
        bound_type: see there.
        init_sigma: see there.
        **layers: activation and normalisation.
    """
    check_choice("action_space", action_space, ACTION_SPACES)
    check_choice("sigma_type", sigma_type, get_args(SigmaType))
    check_choice("bound_type", bound_type, get_args(BoundType))
    if init_sigma is not None and (sigma_type not in ("independent", "scalar") or init_sigma < LEAST_SIGMA):
        raise ConfigError(
            f"policy.model.init_sigma={init_sigma}: expected at least {LEAST_SIGMA}, together with sigma_type="
            f"'independent' or 'scalar', got sigma_type='{sigma_type}'."
        )

    def discrete(size: int) -> nn.Module:
        return MLP([*inner, size], output=True, **layers)

    def continuous(size: int) -> nn.Module:
        return GaussianHead([*inner, size], sigma_type, fixed_sigma_value, bound_type, init_sigma, **layers)

    if action_space == "hybrid":
        num_types, num_args = hybrid_sizes(action_shape)
        return HybridHead(discrete(num_types), continuous(num_args))
    several = isinstance(action_shape, Sequence) and len(action_shape) > 1
    if action_space == "multi_discrete" or (action_space == "discrete" and several):
        options = branch_options(action_shape)
        return BranchesHead(discrete(len(options) * max(options)), options)
    size = single_size(action_shape, f" of a {action_space} action")
    return continuous(size) if action_space == "continuous" else discrete(size)
