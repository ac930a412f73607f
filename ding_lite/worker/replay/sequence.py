"""Replay of sequences, rows that follow one another, over the same ring as uniform replay.

Shapes: U steps of a sequence, B sequences, K trajectories truncated inside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.ring import UniformReplayBuffer, to_single


@BUFFER_REGISTRY.register("sequence")
class SequenceReplayBuffer(UniformReplayBuffer):
    """Samples every stored run of U steps of an environment with the same probability, whichever step it starts at.

    A sequence goes on with the next episode where one ends, as `traj_flag` tells. The newest steps can be sampled at
    once: the row after them, which the next push overwrites, holds the observations that followed.

    Args:
        replay_buffer_size: sequences kept, laid end to end, of all N environments together: U times as many env steps.
        num_envs: N.
        unroll_len: U.
        kwargs: of `UniformReplayBuffer`; `nstep` and `gamma` have no use here.
    """

    def __init__(self, replay_buffer_size: int, num_envs: int, unroll_len: int, **kwargs: Any) -> None:
        if replay_buffer_size < num_envs:
            raise ValueError(
                f"{replay_buffer_size} sequences cannot be kept of {num_envs} environments: one each, at least"
            )
        num_rows = replay_buffer_size * unroll_len // num_envs
        extra = max(kwargs.get("frame_stack", 0), 1)  # the row after the newest, and the oldest one's earlier frames
        super().__init__((num_rows + extra) * num_envs, num_envs, **kwargs | {"nstep": 1})
        self._ahead, self._span, self._rows_after = unroll_len - 1, unroll_len, 1
        self._step_U = torch.arange(unroll_len, device=self._device)

    def push(self, block: dict[str, Any]) -> None:
        super().push(block)
        after = slice(self._cursor * self._num_envs, (self._cursor + 1) * self._num_envs)
        newest = self._newest_frame(tree_map(to_single, block["last_obs"]), 1)
        tree_map(lambda ring, obs: ring.__setitem__(after, obs), self._ring["obs"], newest)

    def batches(self, batch_size: int, number: int) -> Iterator[dict[str, Any]]:
        """Yield `number` batches, see `sample`."""
        for _ in range(number):
            samples = self._take(batch_size)
            yield tree_map(lambda leaf: leaf.to(self._batch_device, non_blocking=True), samples)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a dict of tensors.

        What was pushed, `[U, B, ...]`; `last_obs` `[B, ...]`, which follows the last step (meaningless where that is
        done): the true final observation where the trajectory was truncated there. Where any was truncated earlier in a
        sequence: the true `final_obs` `[K, ...]`, and `final_index` `[K]`, the places `u * B + b`. `index` `[B]` names
        the first steps.
        """
        return super().sample(batch_size)

    def _oldest(self) -> int:
        """Return how many of the oldest rows cannot be sampled: one is overwritten by what follows the newest."""
        return self._stack if self._size == self._num_rows else 0

    def _gather(self, drawn: dict[str, Tensor]) -> dict[str, Any]:
        place_UB = (drawn["index"] + self._step_U[:, None] * self._num_envs) % self._num_places
        batch = {key: tree_map(lambda ring: ring[place_UB], ring) for key, ring in self._ring.items() if key != "obs"}
        place_M = place_UB.flatten()
        obs_M = self._observations(place_M, place_M, 0)
        batch["obs"] = tree_map(lambda obs: obs.unflatten(0, place_UB.shape), obs_M)
        batch["last_obs"] = self._successors(place_UB[-1])
        final_index = (self._final_slot[place_UB[:-1]].flatten() >= 0).nonzero().squeeze(1)
        if len(final_index):
            batch["final_index"], batch["final_obs"] = final_index, self._successors(place_M[final_index])
        return batch | drawn
