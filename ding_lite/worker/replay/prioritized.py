"""Proportional prioritised replay (Schaul et al. 2016, arXiv:1511.05952) of transitions or sequences.

The sums of priorities are a tree in host memory, and prefix sums on a GPU. The sampler computes with arrays of either
kind, NumPy's or torch's, by the operations that both have.

Shapes: B samples, L leaves of the tree, R ranks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ding_lite.utils.key import Key
from ding_lite.utils.ranks.collectives import all_gather_tensor, allreduce_data
from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.utils.schedule import Schedule
from ding_lite.worker.replay.buffer import ReplayBuffer, create_ring_and_view
from ding_lite.worker.replay.ring import Ring

MIN_PRIORITY = 1e-6  # added to every priority, so that no sample has probability 0
LARGEST_WEIGHT = 10.0  # bound of the importance weights; that of a sample with the mean priority is 1
MEAN_PERIOD = 1000  # draws from one computation of the mean weights to the next


class SumTree:
    """A binary tree of the sums of its L leaves. Writing or finding B leaves takes O(log L) array operations."""

    arrays: ClassVar[Any] = np

    def __init__(self, num_leaves: int) -> None:
        self._depth = max(num_leaves - 1, 1).bit_length()
        self._first = 2**self._depth
        self._sum = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._sum[1])

    @property
    def leaves(self) -> Tensor:
        """The leaves, padded with zeros to a power of two; a view of the tree's memory."""
        return torch.from_numpy(self._sum[self._first :])

    def array(self, value_B: Tensor) -> np.ndarray:
        """Return a tensor as an array with which the leaves can be computed."""
        return value_B.numpy(force=True)

    def refill(self, value_L: Tensor) -> None:
        """Set the first leaves to `value_L`, and all others to zero."""
        self._sum[:] = 0.0
        self._sum[self._first : self._first + len(value_L)] = value_L.numpy(force=True)
        first = self._first
        while first > 1:  # level by level; the sums are the same, to the bit, as after writing single leaves
            first //= 2
            children = slice(2 * first, 4 * first)
            self._sum[first : 2 * first] = self._sum[children].reshape(-1, 2).sum(1)

    def __getitem__(self, leaf_B: np.ndarray) -> np.ndarray:
        return self._sum[leaf_B + self._first]

    def __setitem__(self, leaf_B: np.ndarray, value_B: np.ndarray | float) -> None:
        node_B = leaf_B + self._first
        self._sum[node_B] = value_B
        for _ in range(self._depth):
            node_B = node_B >> 1
            self._sum[node_B] = self._sum[2 * node_B] + self._sum[2 * node_B + 1]

    def find(self, share_B: np.ndarray) -> np.ndarray:
        """Return the first leaves at which the cumulative sum exceeds these shares, in [0, 1), of the sum of all."""
        mass_B = share_B * self.total
        node_B = np.ones(len(mass_B), np.int64)
        for _ in range(self._depth):
            left_B = self._sum[2 * node_B]
            # After rounding errors, a mass may lie beyond the last positive leaf: never descend into an empty half.
            right_B = (mass_B >= left_B) & (self._sum[2 * node_B + 1] > 0)
            mass_B = np.where(right_B, mass_B - left_B, mass_B)
            node_B = 2 * node_B + right_B
        return node_B - self._first


class PrefixSums:
    """The sums of leaves on a GPU: adding up all of them takes one kernel, and a level of a tree takes several.

    The host never waits for the GPU. Attributes and methods are those of `SumTree`; arrays are tensors on the device.
    """

    arrays: ClassVar[Any] = torch

    def __init__(self, num_leaves: int, device: torch.device) -> None:
        self.leaves = torch.zeros(num_leaves, dtype=torch.float64, device=device)

    @property
    def total(self) -> Tensor:
        return self.leaves.sum()

    def array(self, value_B: Tensor) -> Tensor:
        return value_B.detach().to(self.leaves.device)

    def refill(self, value_L: Tensor) -> None:
        self.leaves.zero_()[: len(value_L)] = value_L

    def __getitem__(self, leaf_B: np.ndarray | Tensor) -> Tensor:
        return self.leaves[self._index(leaf_B)]

    def __setitem__(self, leaf_B: np.ndarray | Tensor, value_B: Tensor | float) -> None:
        if isinstance(value_B, Tensor):
            self.leaves[self._index(leaf_B)] = value_B
        else:
            self.leaves.index_fill_(0, self._index(leaf_B), value_B)

    def find(self, share_B: np.ndarray) -> Tensor:
        sum_L = self.leaves.cumsum(0)
        share_B = np.minimum(share_B, 1 - 2.0**-50)  # a mass of the whole sum would lie beyond the last positive leaf
        mass_B = torch.from_numpy(share_B).to(sum_L.device, non_blocking=True) * sum_L[-1]
        return torch.searchsorted(sum_L, mass_B, right=True)

    def _index(self, leaf_B: np.ndarray | Tensor) -> Tensor:
        return torch.as_tensor(leaf_B).to(self.leaves.device, non_blocking=True)


class PrioritizedSampler:
    """Draws each sample with probability p^alpha / sum p^alpha, where p is its priority.

    New samples get the largest priority so far. The sampler adds `weight` `[B]` to a batch: (M * probability)^-beta for
    M samples, so a sample that is drawn as often as without priorities has the weight 1. The paper divides by the
    largest weight of the buffer: one sample that is hardly ever drawn can then make all steps a thousand times smaller.
    Divided by the largest or the mean of the batch, the size of the steps varies, and DQN learns Pong more slowly.

    A sample that is hardly ever drawn would have a weight of hundreds, and its gradient would be as much larger than
    others. So weights are at most `LARGEST_WEIGHT`, and all are multiplied by the mean of the unbounded weights,
    divided by that of the bounded ones: their mean stays what it is, 1 if beta is 1. Both are computed from all
    priorities, every `MEAN_PERIOD` draws: in those of what was drawn, a few samples with weights of thousands decide.

    The probabilities are those of the joined buffer of all ranks, which exchange three numbers for each draw. Each rank
    draws B_r samples from its own buffer, although the priorities there sum to another total S_r. So a sample is drawn
    (B_r / B) (S / S_r) times as often as from the joined buffer, with B and S the means over ranks. Its weight is
    multiplied by (B / B_r) (S_r / S), and the expected step is that of one process with the joined buffer.

    `num_places` and `device` are the ring's, the other arguments those of `PrioritizedReplayBuffer`.
    """

    adaptive = True

    def __init__(
        self, num_places: int, device: torch.device, alpha: float, beta: float, anneal_step: int, seed: int = 0
    ) -> None:
        self._alpha, self._beta = alpha, Schedule("linear", beta, 1.0, anneal_step)  # beta by batches drawn
        self._rng = np.random.default_rng(seed)
        # priority^alpha of each place; 0 where no sample starts
        self._tree: Any = SumTree(num_places) if device.type == "cpu" else PrefixSums(num_places, device)
        self._max_priority = self._tree.array(torch.ones((), dtype=torch.float64))
        self._num_drawn, self._num_used = 0, 0
        self._factor: Any = 1.0  # the mean of the unbounded weights, divided by that of the bounded ones

    def pushed(self, ring: Ring, number: int, span: int) -> None:
        """Remove the samples that `number` new rows have made incomplete, and add those that they complete."""
        env_N, starts = np.arange(ring.num_envs), ring.starts(span)
        # Overwritten rows leave, and so do rows whose samples need an overwritten row.
        leaving = np.arange(ring.size - number, ring.size + starts.start)
        self._tree[ring.places(leaving[:, None], env_N).ravel()] = 0.0
        # Rows whose samples have become complete enter.
        entering = np.arange(starts.stop - min(number, len(starts)), starts.stop)
        largest_R = all_gather_tensor(torch.as_tensor(self._max_priority))
        self._max_priority = self._tree.array(largest_R.max())
        self._tree[ring.places(entering[:, None], env_N).ravel()] = self._max_priority**self._alpha
        self._num_used = ring.places_in_use

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        """Return `index` `[B]` and `weight` `[B]`; one sample is drawn from each of B equal parts of the total."""
        place_B = self._tree.find((np.arange(number) + self._rng.random(number)) / number)
        beta = self._beta.at(self._num_drawn)
        total, count = self._tree.total, len(starts) * ring.num_envs
        mean = allreduce_data({"total": total, "count": count, "number": number}, "mean")
        usual = mean["total"] / mean["count"]  # the mean priority
        if self._num_drawn % MEAN_PERIOD == 0:
            self._factor = self._mean_factor(usual, beta)
        bounded_B = ((self._tree[place_B] / usual) ** -beta).clip(max=LARGEST_WEIGHT)
        weight_B = bounded_B * (total / mean["total"]) * self._factor * (mean["number"] / number)
        self._num_drawn += 1
        return {"index": torch.as_tensor(place_B), "weight": torch.as_tensor(weight_B).float()}

    def _mean_factor(self, usual: Any, beta: float) -> Any:
        """Return the mean of all ranks' unbounded weights, divided by that of the bounded ones; one collective."""
        share_L = self._tree.leaves / usual
        weight_L = share_L.where(share_L > 0, 1.0) ** -beta
        sums = {"free": share_L * weight_L, "bounded": share_L * weight_L.clip(max=LARGEST_WEIGHT)}
        mean = allreduce_data({key: x_L.sum() for key, x_L in sums.items()}, "mean")
        return self._tree.array(mean["free"] / mean["bounded"])

    def integers(self, high: int, number: int) -> Tensor:
        """Return this many integers from 0 to below `high`, drawn uniformly."""
        return torch.from_numpy(self._rng.integers(high, size=number))

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities `[B]` of places `[B]`; where a new priority is not finite, the old one stays."""
        xp, place_B = self._tree.arrays, self._tree.array(index)
        priority_B, old_B = self._tree.array(priority.double()) + MIN_PRIORITY, self._tree[place_B]
        finite_B = xp.isfinite(priority_B)
        self._max_priority = xp.maximum(self._max_priority, xp.where(finite_B, priority_B, 0.0).max())
        self._tree[place_B] = xp.where(finite_B & (old_B > 0), priority_B**self._alpha, old_B)

    def state_dict(self) -> dict[str, Any]:
        """Return everything on which later draws depend; the priorities share the tree's memory."""
        return {
            "rng": self._rng.bit_generator.state,
            "priority": self._tree.leaves[: self._num_used].cpu(),
            "max_priority": float(self._max_priority),
            "num_drawn": self._num_drawn,
            "weight_factor": float(self._factor),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rng.bit_generator.state = state["rng"]
        self._tree.refill(state["priority"])
        self._num_used = len(state["priority"])
        self._max_priority = self._tree.array(torch.tensor(state["max_priority"], dtype=torch.float64))
        self._num_drawn = state["num_drawn"]
        self._factor = state["weight_factor"]


@BUFFER_REGISTRY.register("prioritized")
class PrioritizedReplayBuffer(ReplayBuffer):
    """Replay of transitions or sequences that are drawn by priority; the keys of `config` are arguments too."""

    config: ClassVar[dict[str, Any]] = dict(
        alpha=Key(
            0.6,
            "exponent of the priorities: 0 draws uniformly, 1 in proportion to the priority",
            low=0,
            constant="the buffer stores priorities to this power",
        ),
        beta=Key(
            0.4,
            "initial exponent of the importance weights; 1 corrects the bias fully",
            low=0,
            high=1,
            constant="it rises to 1 by itself, see anneal_step",
        ),
        anneal_step=Key(100000, "number of batches over which beta rises to 1", low=1),
    )

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        alpha: float = 0.6,
        beta: float = 0.4,
        anneal_step: int = 100000,
        *,
        seed: int = 0,
        batch_device: torch.device | str | None = None,
        **options: Any,
    ) -> None:
        ring, view = create_ring_and_view(replay_buffer_size, num_envs, **options)
        sampler = PrioritizedSampler(ring.num_places, ring.device, alpha, beta, anneal_step, seed)
        super().__init__(ring, sampler, view, batch_device)
