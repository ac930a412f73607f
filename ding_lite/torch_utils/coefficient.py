"""A positive number that is learned, such as the weight of a term in a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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

        A loss that does not see that the number counts as 0, such as SAC's, would lower it further and further, and it
        would take as many steps to become positive again.
        """
        if not self._log_space:
            self.learned.clamp_(min=0.0)
