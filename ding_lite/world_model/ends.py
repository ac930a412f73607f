"""The replay buffer `sequence_ends`: sequences with the last observation of every episode, also of those that ended.

A world model learns what happens when an episode ends from the observation that nobody acts on. `SequenceView` returns
it only for truncated episodes, whose return goes on.

Shapes: T rows of a sequence, B sequences, K episodes that ended in a row of them.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ding_lite.torch_utils.data import Batch
from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.worker.replay.buffer import SequenceReplayBuffer
from ding_lite.worker.replay.ring import Ring
from ding_lite.worker.replay.sequence import SequenceView


class SequenceEndsView(SequenceView):
    """`SequenceView`, whose `final_obs` `[K, ...]` and `final_index` `[K]` have all ends, also in the last row."""

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> Batch:
        place_M = ring.later(drawn["index"], self._step_T1).flatten()  # M = T B
        index_K = (ring.slot[place_M] >= 0).nonzero().squeeze(1)
        ends = {"final_index": index_K, "final_obs": ring.successors(place_M[index_K])}
        return super().gather(ring, drawn) | ends


@BUFFER_REGISTRY.register("sequence_ends")
class SequenceEndsReplayBuffer(SequenceReplayBuffer):
    """The buffer `sequence` with this view."""

    def __init__(self, replay_buffer_size: int, num_envs: int, unroll_len: int | None = None, **options: Any) -> None:
        super().__init__(replay_buffer_size, num_envs, unroll_len=unroll_len, **options)
        assert unroll_len is not None, "the base class raises an error"
        self.view = SequenceEndsView(unroll_len, device=self.ring.device)
