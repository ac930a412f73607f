"""Prioritised replay (Schaul et al. 2016, arXiv:1511.05952), proportional, over the same ring as uniform replay."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ding_lite.utils.key import Key
from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.worker.replay.ring import UniformReplayBuffer

MIN_PRIORITY = 1e-6  # so that no step is lost for good


class SumTree:
    """Sums and minima over the leaves, a binary tree in two arrays: O(log n) to write and to find B leaves at once."""

    def __init__(self, num_leaves: int) -> None:
        self._depth = max(num_leaves - 1, 1).bit_length()
        self._first = 2**self._depth
        self._sum = np.zeros(2 * self._first)
        self._min = np.full(2 * self._first, np.inf)

    @property
    def total(self) -> float:
        return float(self._sum[1])

    @property
    def minimum(self) -> float:
        """The least positive leaf; infinity if there is none."""
        return float(self._min[1])

    @property
    def leaves(self) -> np.ndarray:
        """All leaves, in the tree's own memory, and zeros beyond them up to a power of two."""
        return self._sum[self._first :]

    def refill(self, value_L: np.ndarray) -> None:
        """Set the first leaves, and all others to zero."""
        self._sum[:] = 0.0
        self._sum[self._first : self._first + len(value_L)] = value_L
        self._min[self._first :] = np.where(self.leaves > 0, self.leaves, np.inf)
        first = self._first
        while first > 1:  # a level at a time: the same sums as those of single leaves, bit by bit
            first //= 2
            children = slice(2 * first, 4 * first)
            self._sum[first : 2 * first] = self._sum[children].reshape(-1, 2).sum(1)
            self._min[first : 2 * first] = self._min[children].reshape(-1, 2).min(1)

    def __getitem__(self, leaf_B: np.ndarray) -> np.ndarray:
        return self._sum[leaf_B + self._first]

    def __setitem__(self, leaf_B: np.ndarray, value_B: np.ndarray | float) -> None:
        node_B = leaf_B + self._first
        self._sum[node_B] = value_B
        self._min[node_B] = np.where(self._sum[node_B] > 0, self._sum[node_B], np.inf)
        for _ in range(self._depth):
            node_B = node_B >> 1
            self._sum[node_B] = self._sum[2 * node_B] + self._sum[2 * node_B + 1]
            self._min[node_B] = np.minimum(self._min[2 * node_B], self._min[2 * node_B + 1])

    def find(self, mass_B: np.ndarray) -> np.ndarray:
        """Return for each mass in [0, total) the leaf where the running sum of leaves passes it."""
        node_B = np.ones(len(mass_B), np.int64)
        for _ in range(self._depth):
            left_B = self._sum[2 * node_B]
            # Rounding can leave mass beyond the last positive leaf: never walk into an empty half.
            right_B = (mass_B >= left_B) & (self._sum[2 * node_B + 1] > 0)
            mass_B = np.where(right_B, mass_B - left_B, mass_B)
            node_B = 2 * node_B + right_B
        return node_B - self._first


@BUFFER_REGISTRY.register("prioritized")
class PrioritizedReplayBuffer(UniformReplayBuffer):
    """Samples a step with probability p^alpha / sum p^alpha; new steps enter with the greatest priority seen.

    A batch has `weight` `[B]`: (count * probability)^-beta over the greatest weight that any stored step would have.
    """

    config: ClassVar[dict[str, Any]] = dict(
        alpha=Key(0.6, "how far priorities count: 0 uniform, 1 proportional", low=0),
        beta=Key(0.4, "how far weights undo the bias, at first", low=0, high=1),
        anneal_step=Key(100000, "batches over which beta rises to 1", low=1),
    )

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        alpha: float = 0.6,
        beta: float = 0.4,
        anneal_step: int = 100000,
        **kwargs: Any,
    ) -> None:
        super().__init__(replay_buffer_size, num_envs, **kwargs)
        self._alpha, self._beta, self._anneal_step = alpha, beta, anneal_step
        self._tree = SumTree(self._num_places)
        self._max_priority, self._num_drawn = 1.0, 0

    def push(self, block: dict[str, Any]) -> None:
        first, n_step = self._cursor, len(block["reward"])
        super().push(block)
        # Overwritten rows, and those whose stacks lost frames, leave; rows whose successors are now there enter.
        self._tree[self._places(first, n_step + self._stack - 1)] = 0.0
        entering = min(n_step, self._num_ready())
        self._tree[self._places(self._cursor - self._nstep - entering, entering)] = self._max_priority**self._alpha
        if self._any_barred:
            barred = self._barred.cpu().numpy() & (self._tree.leaves[: self._num_places] > 0)
            self._tree[barred.nonzero()[0]] = 0.0

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take new priorities `[B]` of places `[B]`; where one is not finite, the old one stays."""
        priority_B = priority.detach().cpu().numpy().astype(np.float64) + MIN_PRIORITY
        finite_B = np.isfinite(priority_B)
        place_B, priority_B = index.cpu().numpy()[finite_B], priority_B[finite_B]
        self._max_priority = max(self._max_priority, float(priority_B.max(initial=0.0)))
        self._tree[place_B] = np.where(self._tree[place_B] > 0, priority_B**self._alpha, 0.0)

    def state_dict(self) -> dict[str, Any]:
        leaves = torch.from_numpy(self._tree.leaves[: self._size * self._num_envs])
        return super().state_dict() | {
            "priority": leaves,  # to the power of alpha; 0 where no sample starts
            "max_priority": self._max_priority,
            "num_drawn": self._num_drawn,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._tree.refill(state["priority"].numpy(force=True))
        self._max_priority, self._num_drawn = state["max_priority"], state["num_drawn"]

    def _draw(self, number: int) -> dict[str, Tensor]:
        mass_B = (np.arange(number) + self._rng.random(number)) / number * self._tree.total
        place_B = self._tree.find(mass_B)
        beta = self._beta + (1 - self._beta) * min(self._num_drawn / self._anneal_step, 1.0)
        weight_B = (self._tree[place_B] / self._tree.minimum) ** -beta
        self._num_drawn += 1
        drawn = {"index": torch.from_numpy(place_B), "weight": torch.from_numpy(weight_B.astype(np.float32))}
        return {key: value.to(self._device) for key, value in drawn.items()}

    def _sample_bytes(self) -> int:
        return 2**62  # one batch at a time: priorities change between two batches

    def _places(self, first_row: int, number: int) -> np.ndarray:
        rows = (first_row + np.arange(number)) % self._num_rows
        return (rows[:, None] * self._num_envs + np.arange(self._num_envs)).ravel()
