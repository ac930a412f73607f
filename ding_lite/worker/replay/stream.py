"""Streams that cut successive rollout blocks into transitions or whole episodes, and return each of them once.

Shapes: T steps, N environments, M transitions, L steps of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ding_lite.torch_utils.data import Block
from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.buffer import TransitionView
from ding_lite.worker.replay.ring import NOT_STORED, Ring, to_single


class TransitionStream:
    """Returns each step once, in time order, as the transition that `TransitionView` makes of it.

    The newest n rows wait for the next block, of at most `n_step` rows, which holds the steps that follow them. Without
    `batch_size`, all transitions that become complete with a block are returned together.
    """

    def __init__(
        self,
        n_step: int,
        num_envs: int,
        nstep: int = 1,
        gamma: float = 0.99,
        frame_stack: int = 0,
        batch_size: int | None = None,
    ) -> None:
        self._view = TransitionView(nstep, gamma)
        self._ring = Ring(n_step + nstep + max(frame_stack, 1), num_envs, frame_stack)
        self._waiting = 0  # rows that were pushed and not returned yet
        self._batch_size = batch_size
        self._rest: dict[str, Any] = {}  # transitions that do not fill a batch yet

    def take(self, block: Block) -> Iterator[dict[str, Any]]:
        """Store a rollout block `[T, N, ...]`, and yield the transitions that are complete now, `[B, ...]`."""
        ring = self._ring
        ring.push(block)
        self._waiting += len(block["reward"])
        row_R = np.arange(ring.size - self._waiting, ring.starts(self._view.span).stop)
        self._waiting -= len(row_R)
        if len(row_R):
            place_M = ring.places(row_R[:, None], np.arange(ring.num_envs)).ravel()
            yield from self._batched(self._view.gather(ring, {"index": torch.from_numpy(place_M)}))

    def _batched(self, transitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._batch_size is None:
            yield transitions
            return
        if self._rest:
            transitions = tree_map(lambda *parts: torch.cat(parts), self._rest, transitions)
        number, size = len(transitions["reward"]) // self._batch_size, self._batch_size
        self._rest = tree_map(lambda leaf: leaf[number * size :], transitions)
        yield from (tree_map(lambda leaf: leaf[i * size : (i + 1) * size], transitions) for i in range(number))  # noqa: B023 (at once)


class EpisodeStream:
    """Returns every episode once it has ended, in the order of their ends."""

    def __init__(self, num_envs: int) -> None:
        self._parts: list[list[dict[str, Any]]] = [[] for _ in range(num_envs)]  # parts of the running episodes

    def take(self, block: Block) -> list[dict[str, Any]]:
        """Take a rollout block `[T, N, ...]` and return the episodes that ended in it.

        Each has the block's columns, `[L, ...]`, and `last_obs` `[...]`, the true observation after its last step.
        """
        columns = {key: value for key, value in block.items() if key not in NOT_STORED}
        n_step, num_envs = block["reward"].shape
        start_N, episodes = [0] * num_envs, []
        for k, place in enumerate(block.get("final_index", torch.empty(0)).tolist()):
            t, n = divmod(place, num_envs)
            self._keep(columns, n, slice(start_N[n], t + 1))
            episode = tree_map(lambda *parts: torch.cat(parts), *self._parts[n])
            self._parts[n], start_N[n] = [], t + 1
            last_obs = tree_map(lambda obs: to_single(obs[k]).clone(), block["final_obs"])  # noqa: B023 (at once)
            episodes.append(episode | {"last_obs": last_obs})
        for n, start in enumerate(start_N):
            self._keep(columns, n, slice(start, n_step))
        return episodes

    def _keep(self, columns: dict[str, Any], n: int, rows: slice) -> None:
        """Copy these rows of an environment, because the collector reuses the block's memory."""
        self._parts[n].append(tree_map(lambda column: to_single(column[rows, n]).clone(), columns))
