"""A positive number that is learned, such as the weight of a term in a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Coefficient(nn.Module):
    """A positive number that is learned as its logarithm.

    Args:
        value: the initial number.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor([math.log(value)]))

    def forward(self) -> Tensor:
        """Return the number, a scalar."""
        return self.log[0].exp()
