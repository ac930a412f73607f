"""The storage of replay: a ring buffer of R rows, each with one step of N environments, in time order.

Every key has one preallocated array. `next_obs` is not stored: it is the `obs` of the next row or, where an episode
ended, an entry of a small side table. Of a frame stack, only the newest frame is stored. The other frames are
read from earlier rows when a sample is made; frames before the start of the episode are zeros, as the policy saw them.

Shapes: T rows of a rollout block, B places, K episodes that ended, S frames of a stack. A place is one number for a row
and an environment, `row * N + n`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ding_lite.torch_utils.data import Batch, Block
from ding_lite.utils.tree import tree_leaves, tree_map

NOT_STORED = ("last_obs", "final_obs", "final_index", "episode_step")  # keys of a rollout block that are not columns


class Ring:
    """Stores the newest R rows.

    Args:
        num_rows: R.
        num_envs: N.
        frame_stack: S if observations are stacks of frames, see `ding_lite.envs.spaces`, else 0.
        device: the device whose memory holds the ring.
        keeps_last: whether to keep the observations that follow the newest row, in place of the oldest row. The newest
            row then has a next observation as soon as it is pushed.

    Attributes:
        columns: nested dict of `[R * N, ...]` tensors, empty before the first push. A column is a key of the rollout
            block that has one entry per step: `obs, action, reward, done, traj_flag`, and those that the policy adds.
        episode_step: `[R * N]`, env steps since the reset; an episode starts where it is 0.
        finals: side table of the true last observations of episodes that ended.
        slot: `[R * N]`, the place of each one in `finals`; -1 where there is none.
        cursor: the row that the next push writes first.
        size: number of rows that hold data.
    """

    def __init__(
        self,
        num_rows: int,
        num_envs: int,
        frame_stack: int = 0,
        device: torch.device | str = "cpu",
        keeps_last: bool = False,
    ) -> None:
        self.num_rows, self.num_envs, self.num_places = num_rows, num_envs, num_rows * num_envs
        self.stack, self.device, self.keeps_last = max(frame_stack, 1), torch.device(device), keeps_last
        self.columns: dict[str, Any] = {}
        self.episode_step = torch.zeros(self.num_places, dtype=torch.int32, device=self.device)
        self.slot = torch.full((self.num_places,), -1, dtype=torch.int64, device=self.device)
        self.finals = SideTable()
        self.cursor, self.size = 0, 0
        self._frame_S = torch.arange(1 - self.stack, 1, device=self.device)  # rows of a stack, relative to its newest

    @property
    def parts(self) -> Sequence[Ring]:
        """The rings that it consists of, see `ActorRings`."""
        return (self,)

    def part(self, block: Block) -> Ring:
        """Return the part that stores a rollout block."""
        return self

    @property
    def places_in_use(self) -> int:
        """The number of the first places among which are all that hold data."""
        return self.size * self.num_envs

    def push(self, block: Block) -> None:
        """Write a rollout block `[T, N, ...]` (see `SampleCollector`) in place of the oldest rows.

        Raises:
            ValueError: the block has more rows than the ring.
        """
        block, n_step = tree_map(lambda leaf: to_single(leaf).to(self.device), block), len(block["reward"])
        if n_step > self.num_rows:
            raise ValueError(f"a block of {n_step} rows does not fit a replay buffer of {self.num_rows} rows")
        rows = {key: value for key, value in block.items() if key not in NOT_STORED}
        rows = tree_map(lambda leaf: leaf.flatten(0, 1), rows | {"obs": self._newest_frame(block["obs"], 2)})
        if not self.columns:
            self.allocate(rows)
        begin, end = self.cursor * self.num_envs, (self.cursor + n_step) * self.num_envs
        place: slice | Tensor = slice(begin, end)
        if end > self.num_places:
            place = torch.arange(begin, end, device=self.device) % self.num_places
        tree_map(lambda column, row: column.__setitem__(place, row), self.columns, rows)
        self.episode_step[place] = block["episode_step"].flatten()
        self.remove_finals(place)
        if "final_index" in block:
            place_K = (begin + block["final_index"]) % self.num_places
            self._put_finals(place_K, block["final_obs"])
        self.cursor, self.size = (self.cursor + n_step) % self.num_rows, min(self.size + n_step, self.num_rows)
        if self.keeps_last:
            after = slice(self.cursor * self.num_envs, (self.cursor + 1) * self.num_envs)
            last_obs = self._newest_frame(block["last_obs"], 1)
            tree_map(lambda column, obs: column.__setitem__(after, obs), self.columns["obs"], last_obs)

    def truncate(self, env_index_K: Tensor, obs: Any) -> None:
        """Mark the newest row of environments `[K]` as truncated; `obs` `[K, ...]` are the observations that follow."""
        if not self.size:
            return
        place_K = (self.cursor - 1) % self.num_rows * self.num_envs + env_index_K.to(self.device)
        self.columns["traj_flag"][place_K] = True
        self._put_finals(place_K, tree_map(to_single, obs))

    def _put_finals(self, place_K: Tensor, obs: Any) -> None:
        """Store the last observations of episodes, except those that are known already."""
        chosen = (self.slot[place_K] < 0).nonzero().squeeze(1)
        if len(chosen):
            obs = tree_map(lambda leaf: leaf.to(chosen.device)[chosen], self._newest_frame(obs, 1))
            self.slot[place_K[chosen]] = self.finals.put(obs)

    def remove_finals(self, place: slice | Tensor) -> None:
        """Remove the last observations of these places from the side table, because their rows are overwritten."""
        if len(self.finals):
            slot = self.slot[place]
            self.finals.remove(slot[slot >= 0])
            self.slot[place] = -1

    def starts(self, span: int) -> range:
        """Return the rows, counted from the oldest, at which a sample of `span` rows can start.

        The ring must hold all its rows, the observation that follows them, and all frames of the first one.
        """
        is_full = self.size == self.num_rows
        # A run that is resumed without its replay buffer continues episodes whose earlier frames are gone.
        lacks_frames = is_full or (self.stack > 1 and bool(self.episode_step[: self.num_envs].any()))
        oldest = (self.stack - 1 if lacks_frames else 0) + (self.keeps_last if is_full else 0)
        return range(oldest, max(self.size - span + self.keeps_last, oldest))

    def places(self, row_B: np.ndarray, env_B: np.ndarray) -> np.ndarray:
        """Return the places of rows, counted from the oldest, and environments; the two are broadcast."""
        return (row_B + self.cursor - self.size) % self.num_rows * self.num_envs + env_B

    def later(self, place_B: Tensor, number: Any) -> Tensor:
        """Return the places `number` rows after these, in the same environments; the two are broadcast."""
        return (place_B + number * self.num_envs) % self.num_places

    def rows(self, place_B: Tensor, without: Container[str] = ("obs",)) -> dict[str, Any]:
        """Return the entries `[B, ...]` of the columns; that of `obs` holds single frames, see `observations`."""
        columns = {key: column for key, column in self.columns.items() if key not in without}
        return tree_map(lambda column: column.index_select(0, place_B), columns)

    def observations(self, place_B: Tensor) -> Any:
        """Return the observations at these places, `[B, ...]`."""
        return self._stacks(place_B, place_B, 0)

    def successors(self, place_B: Tensor) -> Any:
        """Return the true observations that follow these places, `[B, ...]`, also where an episode ended."""
        obs = self._stacks(self.later(place_B, 1), place_B, 1)
        if self.finals.capacity:
            newest, slot_B = self._newest_frame(obs, 1), self.slot.index_select(0, place_B)
            if slot_B.is_cuda:  # with fixed shapes, for CUDA graphs
                has_B, entry_B = slot_B >= 0, slot_B.clamp(min=0)

                def choose(leaf: Tensor, table: Tensor) -> None:
                    final = table.index_select(0, entry_B)
                    leaf.copy_(torch.where(has_B.view(-1, *[1] * (leaf.ndim - 1)), final, leaf))

                tree_map(choose, newest, self.finals.obs)
            else:
                index_K = (slot_B >= 0).nonzero().squeeze(1)
                entry_K = slot_B.index_select(0, index_K)
                tree_map(lambda leaf, table: leaf.index_copy_(0, index_K, table[entry_K]), newest, self.finals.obs)
        return obs

    def _stacks(self, place_B: Tensor, known_B: Tensor, later: int) -> Any:
        """Return the observations at `place_B`, which lie `later` rows after `known_B` in the same episodes."""
        if self.stack == 1:
            return tree_map(lambda column: column.index_select(0, place_B), self.columns["obs"])
        place_BS = self.later(place_B[:, None], self._frame_S)
        step_B1 = self.episode_step[known_B, None] + later
        place_BS = torch.where(self._frame_S >= -step_B1, place_BS, self.num_places)  # this place holds zeros

        def join(column: Tensor) -> Tensor:
            frames = column.index_select(0, place_BS.flatten()).unflatten(0, place_BS.shape)
            frames = frames if frames.ndim == 4 else frames.flatten(1, 2)
            return frames.contiguous(memory_format=torch.channels_last) if frames.ndim == 4 else frames

        return tree_map(join, self.columns["obs"])

    def obs_bytes(self) -> int:
        """Return the size of one observation with all its frames, in bytes."""
        return self.stack * sum(leaf[0].nbytes for leaf in tree_leaves(self.columns["obs"]))

    def allocate(self, rows: dict[str, Any]) -> None:
        """Create `columns` with the dtypes and shapes of these entries, `[*, ...]`."""

        def empty(leaf: Tensor, extra: int = 0) -> Tensor:
            return torch.empty((self.num_places + extra, *leaf.shape[1:]), dtype=leaf.dtype, device=self.device)

        self.columns = tree_map(empty, rows)
        if self.stack > 1:
            self.columns["obs"] = tree_map(lambda leaf: empty(leaf, extra=1), rows["obs"])
            tree_map(lambda column: column[-1].zero_(), self.columns["obs"])  # frames before the start of an episode

    def _newest_frame(self, obs: Any, axis: int) -> Any:
        """Return a view of the newest frames of stacks, which lie at `axis`; see `ding_lite.envs.spaces`."""
        if self.stack == 1:
            return obs

        def newest(leaf: Tensor) -> Tensor:
            grey = leaf.ndim - axis == 3 and leaf.shape[axis] == self.stack
            return (leaf if grey else leaf.unflatten(axis, (self.stack, -1))).select(axis, -1)

        return tree_map(newest, obs)


class SideTable:
    """Stores a few observations, and grows if necessary."""

    def __init__(self) -> None:
        self.obs: Any = None  # nested dict of `[capacity, ...]` tensors; None before the first entry
        self._free: list[int] = []
        self.capacity = 0

    def __len__(self) -> int:
        return self.capacity - len(self._free)

    def put(self, obs: Any) -> Tensor:
        """Store observations `[K, ...]`, K > 0, and return their places in `obs`, `[K]`."""
        first = next(tree_leaves(obs))
        number = len(first)
        while len(self._free) < number:
            more = max(self.capacity, 16)
            fresh = tree_map(lambda leaf: leaf.new_empty(more, *leaf.shape[1:]), obs)  # noqa: B023 (called at once)
            self.obs = tree_map(lambda *parts: torch.cat(parts), self.obs, fresh) if self.capacity else fresh
            self._free += range(self.capacity, self.capacity + more)
            self.capacity += more
        slot_K = torch.tensor(self._free[: -number - 1 : -1], device=first.device)
        del self._free[-number:]
        tree_map(lambda table, leaf: table.index_copy_(0, slot_K, leaf), self.obs, obs)
        return slot_K

    def remove(self, slot_K: Tensor) -> None:
        """Free these places."""
        self._free += slot_K.tolist()


def to_single(leaf: Tensor) -> Tensor:
    """Return float64 tensors, which some environments produce, as float32, and all others unchanged."""
    return leaf.float() if leaf.dtype == torch.float64 else leaf


class Sampler(Protocol):
    """Chooses the places at which samples start, and owns all randomness of replay.

    With a prioritized sampler, `pushed` and `draw` are collective calls, see `ReplayBuffer`.
    """

    adaptive: bool = False  # whether a draw depends on priorities, which the last learning step may have updated

    def pushed(self, ring: Ring, number: int, span: int) -> None:
        """Take note that the ring has `number` new rows; a sample has `span` rows."""
        return

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        """Choose B = `number` samples, which start at these rows, see `Ring.starts`.

        Return `index` `[B]`, the places of the samples, and any other tensors `[B, ...]` to add to the batch.
        """

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities `[B]` of the samples that start at the places `index` `[B]`."""
        return

    def state_dict(self) -> dict[str, Any]:
        """Return everything on which later draws depend."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""


class View(Protocol):
    """Turns places into samples, without randomness."""

    span: int  # number of rows of a sample; the ring also has the observation that follows them
    # Whether B is the first dimension of every tensor of a batch, and nothing that a batch depends on changes from one
    # learner iteration to the next. Several batches can then be gathered as one, and split.
    joined: bool

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> Batch:
        """Return the batch of the samples at `drawn["index"]`; the buffer adds to it what the sampler has drawn."""
