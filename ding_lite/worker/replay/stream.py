"""From rollout blocks, one after another, to single transitions and whole episodes, each handed out once.

Shapes: T steps, N environments, M transitions, L steps of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ding_lite.utils.tree import tree_map
from ding_lite.worker.replay.ring import RESERVED, UniformReplayBuffer, to_single


class TransitionStream(UniformReplayBuffer):
    """Hands out every step once, in the order of time, as uniform replay would sample it.

    So rewards are sums over n steps, `next_obs` is what truly followed, and stacks are rebuilt. The newest n rows wait
    for the block that says what followed them.

    Args:
        n_step: rows of the longest block.
        num_envs: N.
        nstep: see `UniformReplayBuffer`.
        gamma: see `UniformReplayBuffer`.
        frame_stack: see `UniformReplayBuffer`.
        batch_size: B; None: whatever is complete is handed out together.
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
        super().__init__((n_step + nstep + max(frame_stack, 1)) * num_envs, num_envs, nstep, gamma, frame_stack)
        self._pushed, self._taken = 0, 0  # rows, since the first
        self._env_N = torch.arange(num_envs)
        self._batch_size = batch_size
        self._rest: dict[str, Any] = {}  # what is no whole batch yet

    def take(self, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Store a block, and yield the transitions that are complete now, `[B, ...]`.

        Their keys are those of `UniformReplayBuffer.sample` but for `index`.
        """
        self.push(block)
        self._pushed += len(block["reward"])
        complete = max(self._pushed - self._ahead, self._taken)
        row_R = torch.arange(self._taken, complete) % self._num_rows
        self._taken = complete
        place_M = (row_R[:, None] * self._num_envs + self._env_N).flatten()
        place_M = place_M[~self._barred[place_M]]
        if len(place_M):
            transitions = self._gather({"index": place_M})
            del transitions["index"]
            yield from self._batched(transitions)

    def _batched(self, transitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._batch_size is None:
            yield transitions
            return
        if self._rest:
            transitions = tree_map(lambda *parts: torch.cat(parts), self._rest, transitions)
        *batches, self._rest = _split(transitions, self._batch_size)
        yield from batches


def _split(tree: Any, size: int) -> list[Any]:
    """Cut leaves `[M, ...]` into as many parts of `size` rows as there are, and one of the less than `size` left."""
    if isinstance(tree, dict):
        parts = zip(*(_split(leaf, size) for leaf in tree.values()), strict=True)
        return [dict(zip(tree, part, strict=True)) for part in parts]
    whole = len(tree) // size * size
    return [*(tree[:whole].split(size) if whole else ()), tree[whole:]]


class EpisodeStream:
    """Hands out every episode that has ended as it should, in the order of their ends."""

    def __init__(self, num_envs: int) -> None:
        self._parts: list[list[dict[str, Any]]] = [[] for _ in range(num_envs)]  # of the running episodes

    def take(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        """Cut a block, and return the episodes that ended in it.

        An episode is the block's columns, `[L, ...]`, and `last_obs` `[...]`, the true one that followed its last step.
        """
        columns = {key: value for key, value in block.items() if key not in RESERVED}
        columns["valid"] = block.get("valid", torch.ones_like(block["traj_flag"]))
        n_step, num_envs = block["reward"].shape
        start_N, episodes = [0] * num_envs, []
        for k, place in enumerate(block.get("final_index", torch.empty(0)).tolist()):
            t, n = divmod(place, num_envs)
            self._keep(columns, n, slice(start_N[n], t + 1))
            episode = tree_map(lambda *parts: torch.cat(parts), *self._parts[n])
            self._parts[n], start_N[n] = [], t + 1
            if episode.pop("valid").all():
                last_obs = tree_map(lambda obs: to_single(obs[k]).clone(), block["final_obs"])  # noqa: B023 (at once)
                episodes.append(episode | {"last_obs": last_obs})
        for n, start in enumerate(start_N):
            self._keep(columns, n, slice(start, n_step))
        return episodes

    def _keep(self, columns: dict[str, Any], n: int, rows: slice) -> None:
        """Copy these rows of an environment, since the block's memory is used again."""
        self._parts[n].append(tree_map(lambda column: to_single(column[rows, n]).clone(), columns))
