"""The base class of models with several computations, such as that of the actor and that of the critic."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn


class ModeModel(nn.Module):
    """A model that computes what the argument `mode` of a call names.

    Attributes:
        modes: names of the methods that a call may name.
    """

    modes: ClassVar[tuple[str, ...]] = ()

    def forward(self, inputs: Any, mode: str) -> dict[str, Any]:
        """Return the result of the method named `mode` for `inputs`.

        Raises:
            ValueError: there is no such method in `modes`.
        """
        if mode not in self.modes:
            raise ValueError(f"{type(self).__name__}: expected a mode of {', '.join(self.modes)}, got '{mode}'.")
        return getattr(self, mode)(inputs)
