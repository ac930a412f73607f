"""The interfaces of a sampler and of a view, the parts of a `ReplayBuffer`. Shapes: B samples."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from ding_lite.worker.replay.ring import Ring


class Sampler(Protocol):
    """Chooses the places at which samples start, and owns all randomness of replay.

    Attributes:
        adaptive: whether a draw depends on priorities, which learning from the batch before may have updated.
    """

    adaptive: bool

    def pushed(self, ring: Ring, number: int, span: int) -> None:
        """Take note that the ring has `number` new rows; a sample has `span` rows.

        With a prioritized sampler a collective call: all ranks make it equally often.
        """

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        """Choose the samples of a batch.

        With a prioritized sampler a collective call: all ranks make it equally often, with equally many samples.

        Args:
            ring: stores the steps.
            starts: the rows at which a sample may start, see `Ring.starts`.
            number: B.

        Returns:
            `index` `[B]`, the places of the samples, and any other tensors `[B, ...]` to add to the batch.
        """

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities `[B]` of the samples that start at the places `index` `[B]`."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything on which later draws depend."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""


class View(Protocol):
    """Turns places into samples, without randomness.

    Attributes:
        span: number of rows of a sample; the ring also has the observation that follows them.
        joined: whether B is the first dimension of every tensor of a batch, and nothing that a batch depends on changes
            from one learner iteration to the next. Several batches can then be gathered as one, and split.
    """

    span: int
    joined: bool

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> dict[str, Any]:
        """Return the batch of the samples at `drawn["index"]`.

        Args:
            ring: stores the steps.
            drawn: what the sampler returned; the buffer adds it to the batch.
        """
