"""An ensemble of probabilistic networks (Chua et al. 2018, arXiv:1805.12114), computed in batched products of matrices.

Shapes: E members, L of them chosen, B samples, I numbers of an input, F numbers of an output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.torch_utils.running_stat import RunningMeanStd

LOGVAR_BOUNDS = (-10.0, 0.5)  # softplus keeps log-variances smoothly between these
CONSTANT = 1e-12  # variance of a number below which it is not divided by its deviation


class Ensemble(nn.Module):
    """Maps inputs to the means and log-variances of normal distributions; each member has weights of its own.

    Args:
        num_members: E.
        sizes: I, the sizes of the hidden layers, F.
        num_elites: L.

    Attributes:
        scale: the statistics by which inputs are standardised.
        elites: `[L]`, the numbers of the members with the smallest holdout errors.
    """

    elites: Tensor

    def __init__(self, num_members: int, sizes: Sequence[int], num_elites: int) -> None:
        super().__init__()
        pairs = list(zip(sizes[:-1], [*sizes[1:-1], 2 * sizes[-1]], strict=True))
        self.weights = nn.ParameterList(_init_weight(num_members, *pair) for pair in pairs)
        self.biases = nn.ParameterList(torch.zeros(num_members, 1, size) for _, size in pairs)
        self.scale = RunningMeanStd((sizes[0],))
        self.register_buffer("elites", torch.arange(num_elites))

    def forward(self, input_LBI: Tensor, members: Tensor | slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Return means and log-variances, each `[L, B, F]`, of these members, or of all, for raw inputs."""
        std_I = self.scale.var.sqrt().masked_fill(self.scale.var < CONSTANT, 1.0)
        x = ((input_LBI - self.scale.mean) / std_I).to(input_LBI.dtype)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = F.silu(torch.baddbmm(bias[members], x, weight[members]))
        mean, logvar = torch.baddbmm(self.biases[-1][members], x, self.weights[-1][members]).chunk(2, dim=-1)
        low, high = LOGVAR_BOUNDS
        logvar = high - F.softplus(high - logvar)
        return mean, low + F.softplus(logvar - low)


def _init_weight(num_members: int, size_in: int, size_out: int) -> Tensor:
    std = 0.5 / math.sqrt(size_in)
    return nn.init.trunc_normal_(torch.empty(num_members, size_in, size_out), std=std, a=-2 * std, b=2 * std)


def nll(mean_EBF: Tensor, logvar_EBF: Tensor, target_EBF: Tensor) -> Tensor:
    """Return sum_E mean_BF((y - mu)^2 / sigma^2 + log sigma^2), twice the negative log-likelihood but for a constant.

    The sum, and not the mean, over members: each has the gradient that it would have alone.
    """
    error = (target_EBF - mean_EBF).square() * (-logvar_EBF).exp() + logvar_EBF
    return error.mean(dim=(1, 2)).sum()
