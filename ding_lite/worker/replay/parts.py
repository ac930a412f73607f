"""What a `ReplayBuffer` wants of its sampler and of its view. Shapes: B samples."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from ding_lite.worker.replay.ring import Ring


class Sampler(Protocol):
    """Which places samples start at.

    Attributes:
        adaptive: whether a draw depends on priorities that the batch before it may have updated.
    """

    adaptive: bool

    def pushed(self, ring: Ring, number: int, span: int) -> None:
        """Hear that the ring has `number` new rows; samples are of `span` rows."""

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        """Return `index` `[B]`, places in rows of `starts` (see `Ring.starts`), and other `[B, ...]` for the batch."""

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take the priorities `[B]` of samples that started at places `[B]`."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that later draws depend on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` returned."""


class View(Protocol):
    """What a sample is.

    Attributes:
        span: rows of a sample; the observation that follows them is there too.
        joined: whether the tensors of a batch begin with B, so that several batches can be gathered as one and cut.
    """

    span: int
    joined: bool

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> dict[str, Any]:
        """Return the batch for what the sampler drew; what was drawn need not be in it."""
