"""Memory for the rows of a rollout block. Shapes: T steps, N environments, K episodes that ended in the block."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import create_empty_array

from ding_lite.utils.tree import lengthen, tree_map


class RolloutRows:
    """Memory for the rows `[T, N, ...]` of a rollout block, used again in every collect, and a list of ended episodes.

    Args:
        observation_space: batched, of N environments.
    """

    def __init__(self, observation_space: gymnasium.Space[Any]) -> None:
        self._columns: dict[str, Any] = {"obs": create_empty_array(observation_space, 0, fn=np.empty)}
        self._ends: list[dict[str, Any]] = []
        self.capacity = 0  # rows

    def reserve(self, n_step: int) -> None:
        """Make room for at least `n_step` rows; those that are written stay."""
        if n_step > self.capacity:
            self._columns = tree_map(lambda rows: lengthen(rows, n_step), self._columns)
            self.capacity = n_step

    def write_obs(self, t: int, obs: Any) -> Any:
        """Copy observations `[N, ...]` into row `t`, and return that row, the block's own memory."""
        rows = self._columns["obs"]
        _write(rows, t, obs)
        return tree_map(lambda column: column[t], rows)

    def write(self, t: int, row: dict[str, Any]) -> None:
        """Copy nested arrays or tensors `[N, ...]` into row `t`; the first row says which columns there are."""
        for key, value in row.items():
            if key not in self._columns:
                self._columns[key] = tree_map(self._allocate, value)
            _write(self._columns[key], t, value)

    def _allocate(self, leaf: Any) -> np.ndarray:
        array = to_numpy(torch.as_tensor(leaf))
        return np.empty((self.capacity, *array.shape), array.dtype)

    def add_ends(self, place_K: np.ndarray, index_K: np.ndarray, info: dict[str, Any]) -> None:
        """Remember the episodes that ended at the places `t * N + n`, in the environments `index_K`."""
        totals = {"return": info["episode_return"][index_K], "length": info["episode_length"][index_K]}
        self._ends.append({"index": place_K, "obs": info["final_obs"]} | totals)

    def take(self, n_step: int, last_obs: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the block of the first `n_step` rows, and what ended in it; then forget the ends.

        Args:
            n_step: T.
            last_obs: the observations `[N, ...]` after the last row.

        Returns:
            The block, and `index` (the place `t * N + n`), `return` and `length` `[K]` of the ended episodes.
        """
        block = tree_map(lambda rows: torch.from_numpy(rows[:n_step]), self._columns)
        block["last_obs"] = tree_map(torch.from_numpy, last_obs)
        if not self._ends:
            return block, {"index": np.empty(0, np.int64), "return": np.empty(0), "length": np.empty(0)}
        ends = tree_map(lambda *parts: np.concatenate(parts), *self._ends)
        self._ends = []
        block["final_index"] = torch.from_numpy(ends["index"])
        block["final_obs"] = tree_map(torch.from_numpy, ends.pop("obs"))
        return block, ends


def to_numpy(leaf: torch.Tensor) -> np.ndarray:
    """Return a tensor of any device as an array, in the quickest way."""
    return leaf.numpy(force=True)


def _write(rows: Any, t: int, value: Any) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            _write(rows[key], t, part)
    else:
        rows[t] = to_numpy(value) if isinstance(value, torch.Tensor) else value
