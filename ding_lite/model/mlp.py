"""Fully connected layers, used by every network in this package."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "elu": functional.elu,
}


class MLP(nn.ModuleList):
    """Linear layers, each followed by the activation.

    An MLP that is an `output` is the head of a network: its last layer has no activation, and all its layers run in
    the type of their parameters even under autocast. bfloat16 has 8 bits of precision, so the values of two actions
    would often be rounded to the same number.

    Args:
        sizes: number of input features, then the size of each layer.
        activation: a key of `ACTIVATIONS`.
        output: whether this is the head of a network.
        linear: creates a layer from its input and output size.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        output: bool = False,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> None:
        super().__init__([linear(*pair) for pair in itertools.pairwise(sizes)])
        self._activation = ACTIVATIONS[activation]
        self._output, self._num_hidden = output, len(sizes) - 1 - output

    def forward(self, x: Tensor) -> Tensor:
        """Return `[..., sizes[-1]]` for features `[..., sizes[0]]`."""
        if self._output and torch.is_autocast_enabled(x.device.type):
            with torch.autocast(x.device.type, enabled=False):
                return self._run(x.to(next(self.parameters()).dtype))
        return self._run(x)

    def _run(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self):
            x = self._activation(layer(x)) if index < self._num_hidden else layer(x)
        return x
