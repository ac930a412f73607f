"""An exponential average of a network's weights, which evaluations may use instead of the newest weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class WeightAverage:
    """The exponential average of a network's weights over learner iterations.

    The weights of single iterations scatter around a mean, and so does what they play; the average scatters less
    (Polyak and Juditsky 1992). Learning does not use it. Buffers, such as statistics of batch normalisation, are
    averaged too if they are floats.

    Args:
        network: the network that learns. Its weights must be changed in place.
        share: the share of the newest weights in the average, per iteration.
    """

    def __init__(self, network: nn.Module, share: float) -> None:
        self._network, self._share = network, share
        self._newest = {name: tensor for name, tensor in network.state_dict().items() if tensor.is_floating_point()}
        self._average = {name: tensor.clone() for name, tensor in self._newest.items()}

    def update(self) -> None:
        """Add the newest weights; call this once after each learner iteration."""
        torch._foreach_lerp_(list(self._average.values()), list(self._newest.values()), self._share)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Return a context manager in which the network has the average's weights."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        newest = {name: tensor.clone() for name, tensor in self._newest.items()}  # first: a weight may have two names
        for name, tensor in self._newest.items():
            tensor.copy_(self._average[name])
        self._average = newest

    def state_dict(self) -> dict[str, Any]:
        """Return the average: the network's state, with averaged weights."""
        return {**self._network.state_dict(), **self._average}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restore a state that `state_dict` returned. None: the average starts anew, with the network's weights."""
        for name, tensor in self._average.items():
            tensor.copy_(state[name] if state else self._newest[name])
