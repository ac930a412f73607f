"""Columnar replay: one ring `[R, N, ...]` per key, R = capacity // N rows of N environments, in the order of time.

`next_obs` is not stored: it is the next row, or where a trajectory was truncated an entry of a side table. A frame
stack is stored as its newest frame and rebuilt when sampled, zeros before an episode's first, as the policy saw it.
Shapes: B samples, K n-step rewards, S frames of a stack. A place is a row and an environment, flat: `row * N + n`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.utils.tree import tree_map

RESERVED = ("last_obs", "final_obs", "final_index", "episode_step", "valid")
GATHER_AT_ONCE = 2**20  # bytes: batches of small samples are gathered together, of large ones one by one


@BUFFER_REGISTRY.register("uniform")
class UniformReplayBuffer:
    """Samples every stored step with the same probability, but for those of episodes that went wrong.

    Args:
        replay_buffer_size: env steps kept, of all N environments together.
        num_envs: N.
        nstep: rewards summed in a sample's `reward`.
        gamma: discount per env step.
        frame_stack: S if observations are rolling stacks along their first axis, 0 if not.
        device: where the ring is kept.
        batch_device: where samples go; None: they stay on `device`.
        seed: of the choice of samples.
    """

    config: ClassVar[dict[str, Any]] = dict()

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        nstep: int = 1,
        gamma: float = 0.99,
        frame_stack: int = 0,
        device: torch.device | str = "cpu",
        batch_device: torch.device | str | None = None,
        seed: int = 0,
    ) -> None:
        self._num_envs, self._num_rows = num_envs, replay_buffer_size // num_envs
        self._nstep, self._stack, self._device = nstep, max(frame_stack, 1), torch.device(device)
        self._ahead = nstep  # rows that a sample needs after its first
        self._span = nstep  # rows that a sample is made of, but for the observations that follow
        self._rows_after = 0  # rows beyond the newest that hold observations
        if self._num_rows < nstep + self._stack:
            raise ValueError(
                f"{replay_buffer_size} env steps of {num_envs} environments are too few rows to sample from"
            )
        self._batch_device = self._device if batch_device is None else batch_device
        self._discount_K = gamma ** torch.arange(nstep + 1, device=self._device, dtype=torch.float32)
        self._step_K = torch.arange(nstep, device=self._device)
        self._frame_S = torch.arange(1 - self._stack, 1, device=self._device)  # a stack's rows, relative to its newest
        self._rng = np.random.default_rng(seed)
        self._ring: dict[str, Any] = {}
        self._final: Any = None  # last observations of truncated episodes, a row a slot
        self._cursor, self._size = 0, 0  # next row to write, rows written
        self._num_places = self._num_rows * num_envs
        self._age = torch.zeros(self._num_places, dtype=torch.int32, device=self._device)  # env steps since a reset
        self._final_slot = torch.full((self._num_places,), -1, dtype=torch.int64, device=self._device)
        self._free_slots: list[int] = []
        self._num_slots = 0
        self._barred = torch.zeros(self._num_places, dtype=torch.bool, device=self._device)  # no sample starts here
        self._any_barred = False
        self._start_places: Tensor | None = None

    def count(self) -> int:
        """Return the number of steps that can be sampled.

        Not the newest `nstep` rows, whose successors are to come, nor steps that are not valid: where an episode of one
        rank went wrong, ranks differ.
        """
        return len(self._starts()) if self._any_barred else self._num_ready() * self._num_envs

    def push(self, block: dict[str, Any]) -> None:
        """Store a rollout block `[T, N, ...]`, see `SampleCollector`, over the oldest rows.

        Steps where its `valid`, if it has one, is False are never sampled, nor are older ones of the same episode.
        """
        n_step, block = len(block["reward"]), tree_map(to_single, block)
        if n_step > self._num_rows:
            raise ValueError(f"a block of {n_step} rows does not fit a replay buffer of {self._num_rows} rows")
        begin, end = self._cursor * self._num_envs, (self._cursor + n_step) * self._num_envs
        place: slice | Tensor = slice(begin, end)
        if end > self._num_places:
            place = torch.arange(begin, end, device=self._device) % self._num_places
        columns = {key: value for key, value in block.items() if key not in RESERVED}
        columns["obs"] = self._newest_frame(columns["obs"], 2)
        columns = tree_map(lambda column: column.flatten(0, 1), columns)
        if not self._ring:
            self._ring = self._allocate(columns)
        tree_map(lambda ring, column: ring.__setitem__(place, column), self._ring, columns)
        self._age[place] = block["episode_step"].flatten()
        self._free(place)
        if "final_index" in block:
            self._keep_finals(block, begin)
        self._cursor = (self._cursor + n_step) % self._num_rows
        self._size = min(self._size + n_step, self._num_rows)
        self._bar(block, place)

    def batches(self, batch_size: int, number: int) -> Iterator[dict[str, Any]]:
        """Yield `number` batches, see `sample`; priorities updated between two of them count in the next."""
        group = 1 if self._sample_bytes() * batch_size * number > GATHER_AT_ONCE else number
        for _ in range(number // group):
            samples = self._take(batch_size * group)
            parts = tree_map(lambda leaf: self._split(leaf, group), samples)
            for i in range(group):
                yield tree_map(lambda part: part[i], parts)  # noqa: B023 (called at once)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Return a dict of `[B, ...]` tensors.

        What was pushed, at n-step places: `reward` is the discounted sum, cut where the trajectory is; `done` says
        whether it ended there in a terminal state; `next_obs` follows the last summed step (meaningless where done);
        `value_gamma` is the discount of its value, gamma^(steps summed); `index` names the places for `update`.
        """
        return next(self.batches(batch_size, 1))

    def _take(self, number: int) -> dict[str, Any]:
        if not self.count():
            raise ValueError("the replay buffer holds nothing that can be sampled: push more steps first, see count()")
        return self._gather(self._draw(number))

    def _split(self, leaf: Tensor, group: int) -> tuple[Tensor, ...]:
        """Move samples of `group` batches to the batches' device, and cut them apart."""
        return leaf.to(self._batch_device, non_blocking=True).view(group, -1, *leaf.shape[1:]).unbind()

    def update(self, index: Tensor, priority: Tensor) -> None:
        """Take new priorities `[B]` of places `[B]`; a uniform buffer has no use for them."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that later samples depend on.

        The tensors hold the rows in use, in the ring's own memory: write them to a file before the next push. Only what
        the side table holds is copied.
        """
        num_places = self._size * self._num_envs
        ring = {
            key: tree_map(lambda leaf: first_places(leaf, num_places), column) for key, column in self._ring.items()
        }
        if ring:
            num_obs = min(self._size + self._rows_after, self._num_rows) * self._num_envs
            ring["obs"] = tree_map(lambda leaf: first_places(leaf, num_obs), self._ring["obs"])
        final_place = (self._final_slot >= 0).nonzero().squeeze(1)
        final_slot = self._final_slot[final_place]
        return self._layout() | {
            "ring": ring,
            "age": first_places(self._age, num_places),
            "barred": first_places(self._barred, num_places),
            "final_place": final_place,
            "final_obs": tree_map(lambda table: table[final_slot], self._final) if len(final_place) else None,
            "cursor": self._cursor,
            "size": self._size,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` returned, copied out of its tensors, which may be a file mapped into memory.

        Raises:
            ValueError: The state is of a buffer of other columns, size or options; nothing has changed then.
        """
        self._check(state)
        if state["ring"]:
            self._ring = self._ring or self._allocate(state["ring"])
            tree_map(lambda ring, column: ring[: len(column)].copy_(column), self._ring, state["ring"])
        self._cursor, self._size = state["cursor"], state["size"]
        num_places = self._size * self._num_envs
        self._age[:num_places] = state["age"].to(self._device)
        self._barred.zero_()
        self._barred[:num_places] = state["barred"].to(self._device)
        self._any_barred, self._start_places = bool(self._barred.any()), None
        self._num_slots, self._free_slots = len(state["final_place"]), []
        self._final_slot.fill_(-1)
        self._final_slot[state["final_place"].to(self._device)] = torch.arange(self._num_slots, device=self._device)
        if self._num_slots:
            self._final = tree_map(lambda obs: obs.to(self._device, copy=True), state["final_obs"])
        self._rng.bit_generator.state = state["rng"]

    def _layout(self) -> dict[str, int]:
        """Return what a state must have in common with this buffer, besides the columns."""
        layout = {"num_rows": self._num_rows, "num_envs": self._num_envs}
        return layout | {"frame_stack": self._stack, "sample_rows": self._span}

    def _check(self, state: dict[str, Any]) -> None:
        """Raise `ValueError` if the state does not fit."""
        if keys := sorted(set(self.state_dict()) ^ set(state)):
            raise ValueError(f"a replay buffer's state of another type than {type(self).__name__}: {keys} only in one")
        here: dict[str, Any] = self._layout()
        there = {key: state[key] for key in here}
        if self._ring and state["ring"]:
            here, there = here | describe(self._ring), there | describe(state["ring"])
        for key in here | there:
            if (expected := here.get(key)) != (found := there.get(key)):
                raise ValueError(
                    f"a replay buffer's state with {key} {found}, but here it is {expected}: set the same options and "
                    "environment, or go on without the replay buffer's state"
                )

    def _num_ready(self) -> int:
        """Return how many rows have all that a sample needs."""
        return max(self._size - self._ahead - self._oldest(), 0)

    def _oldest(self) -> int:
        """Return how many of the oldest rows cannot be sampled, because their stacks' first frames are overwritten."""
        return self._stack - 1 if self._size == self._num_rows else 0

    def _bar(self, block: dict[str, Any], place: slice | Tensor) -> None:
        """Bar the starts of samples that would hold a step of an episode that went wrong.

        All of it if steps of it are not valid; only its last step, whose successor nobody knows, where it breaks off,
        because the environment was reset in the middle.
        """
        if self._any_barred:
            self._barred[place] = False
        age_TN = block["episode_step"]
        wrong = [(-1, n, 0) for n, age in enumerate(age_TN[0].tolist()) if age == 0 and self._broke_off(n, len(age_TN))]
        if "valid" in block:
            wrong += [(t, n, int(age_TN[t, n])) for t, n in (~block["valid"]).nonzero().tolist()]
        for t, n, age in wrong:
            newer = len(age_TN) - 1 - t
            number = min(age + self._span, self._size - newer)  # as far as there are rows
            rows = (self._cursor - 1 - newer - torch.arange(number, device=self._device)) % self._num_rows
            self._barred[rows * self._num_envs + n] = True
        if wrong or self._any_barred:
            self._any_barred, self._start_places = bool(self._barred.any()), None

    def _broke_off(self, n: int, n_step: int) -> bool:
        """Return whether an environment's episode did not end in the last row before the newest `n_step`."""
        row = (self._cursor - n_step - 1) % self._num_rows
        return self._size > n_step and not self._ring["traj_flag"][row * self._num_envs + n]

    def _starts(self) -> Tensor:
        """Return the places where a sample may start, oldest first, while some are barred."""
        if self._start_places is None:
            first, oldest = self._cursor - self._size, self._oldest()
            barred_RN = self._barred.view(self._num_rows, self._num_envs).roll(-first, 0)
            free = (~barred_RN[oldest : oldest + self._num_ready()]).flatten().nonzero().squeeze(1)
            self._start_places = (free + (first + oldest) * self._num_envs) % self._num_places
        return self._start_places

    def _draw(self, number: int) -> dict[str, Tensor]:
        """Return places `[B]`, and weights where there are any."""
        if self._any_barred:
            starts = self._starts()
            return {"index": starts[torch.from_numpy(self._rng.integers(len(starts), size=number)).to(self._device)]}
        row_B = self._rng.integers(self._oldest(), self._size - self._ahead, number)
        row_B = (row_B + self._cursor - self._size) % self._num_rows
        place_B = row_B * self._num_envs + self._rng.integers(self._num_envs, size=number)
        return {"index": torch.from_numpy(place_B).to(self._device)}

    def _gather(self, drawn: dict[str, Tensor]) -> dict[str, Any]:
        place_B = drawn["index"]
        batch = {key: tree_map(lambda ring: ring[place_B], ring) for key, ring in self._ring.items() if key != "obs"}
        last_B, batch["value_gamma"] = place_B, self._discount_K[1:2].expand(len(place_B))
        if self._nstep > 1:
            last_B = self._sum_rewards(batch, place_B)
        batch["obs"] = self._observations(place_B, place_B, 0)
        batch["next_obs"] = self._successors(last_B)
        return batch | drawn

    def _sum_rewards(self, batch: dict[str, Any], place_B: Tensor) -> Tensor:
        """Put into the batch what n steps make of it; return the places of the last summed steps."""
        place_BK = (place_B[:, None] + self._step_K * self._num_envs) % self._num_places
        cut_BK = self._ring["traj_flag"][place_BK]
        ahead_BK = cut_BK.cumsum(1) - cut_BK.long() == 0  # no cut before this step
        steps_B = ahead_BK.sum(1)
        last_B = (place_B + (steps_B - 1) * self._num_envs) % self._num_places
        batch["reward"] = (self._ring["reward"][place_BK] * ahead_BK * self._discount_K[:-1]).sum(1)
        batch["value_gamma"] = self._discount_K[steps_B]
        batch["done"], batch["traj_flag"] = self._ring["done"][last_B], self._ring["traj_flag"][last_B]
        return last_B

    def _observations(self, place_B: Tensor, known_B: Tensor, later: int) -> Any:
        """Return the observations at these places, stacks rebuilt; they are `later` rows after `known_B`, no resets."""
        if self._stack == 1:
            return tree_map(lambda ring: ring[place_B], self._ring["obs"])
        place_BS = (place_B[:, None] + self._frame_S * self._num_envs) % self._num_places
        age_B = self._age[known_B] + later  # env steps since the episode's start
        place_BS = torch.where(self._frame_S >= -age_B[:, None], place_BS, self._num_places)  # there, zeros
        frames = self._ring["obs"].index_select(0, place_BS.flatten()).unflatten(0, place_BS.shape)
        return frames.contiguous(memory_format=torch.channels_last) if frames.ndim == 4 else frames

    def _successors(self, place_B: Tensor) -> Any:
        """Return the observations that follow these places, the true ones where a trajectory was truncated."""
        obs = self._observations((place_B + self._num_envs) % self._num_places, place_B, 1)
        if self._num_slots > len(self._free_slots):
            self._insert_finals(obs, self._final_slot[place_B])
        return obs

    def _insert_finals(self, next_obs: Any, slot_B: Tensor) -> None:
        """Put the true last observations where a sample's trajectory was truncated."""
        hit = (slot_B >= 0).nonzero().squeeze(1)
        if self._stack == 1:
            tree_map(lambda into, final: into.index_copy_(0, hit, final[slot_B[hit]]), next_obs, self._final)
        else:
            next_obs[hit, -1] = self._final[slot_B[hit]]

    def _keep_finals(self, block: dict[str, Any], begin: int) -> None:
        """Store the last observations of the episodes that were truncated."""
        index = block["final_index"].to(self._device)
        truncated = (~block["done"].to(self._device).flatten()[index]).nonzero().squeeze(1)
        if not len(truncated):
            return
        finals = tree_map(lambda obs: obs.to(self._device)[truncated], self._newest_frame(block["final_obs"], 1))
        while len(self._free_slots) < len(truncated):
            self._grow_finals(finals)
        slots = torch.tensor([self._free_slots.pop() for _ in truncated], device=self._device)
        tree_map(lambda table, final: table.index_copy_(0, slots, final), self._final, finals)
        self._final_slot[(begin + index[truncated]) % self._num_places] = slots

    def _grow_finals(self, finals: Any) -> None:
        """Double the side table."""
        more = max(self._num_slots, 16)
        fresh = tree_map(lambda leaf: leaf.new_empty(more, *leaf.shape[1:]), finals)
        self._final = tree_map(lambda *parts: torch.cat(parts), self._final, fresh) if self._num_slots else fresh
        self._free_slots += range(self._num_slots, self._num_slots + more)
        self._num_slots += more

    def _free(self, place: slice | Tensor) -> None:
        """Forget the side-table entries of places that were overwritten."""
        if self._num_slots > len(self._free_slots):
            slots = self._final_slot[place]
            self._free_slots += slots[slots >= 0].tolist()
            self._final_slot[place] = -1

    def _newest_frame(self, obs: Any, axis: int) -> Any:
        return obs if self._stack == 1 else obs.select(axis, -1)

    def _allocate(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return a ring for such columns, `[..., *]`."""

        def allocate(column: Tensor, extra: int = 0) -> Tensor:
            shape = (self._num_places + extra, *column.shape[1:])
            return torch.empty(shape, dtype=column.dtype, device=self._device)

        ring = tree_map(allocate, columns)
        if self._stack > 1:
            ring["obs"] = allocate(columns["obs"], extra=1)
            ring["obs"][-1] = 0  # for frames before an episode
        return ring

    def _sample_bytes(self) -> int:
        sizes: list[int] = []
        tree_map(lambda leaf: sizes.append(leaf[0].numel() * leaf.element_size()), self._ring["obs"])
        return 2 * self._stack * sum(sizes)


def to_single(leaf: Tensor) -> Tensor:
    """Return float64, which some environments observe in, as float32."""
    return leaf.float() if leaf.dtype == torch.float64 else leaf


def first_places(ring: Tensor, number: int) -> Tensor:
    """Return the first places of a ring, in the same memory but with a storage that ends there.

    `torch.save` writes the whole storage that a tensor is a view of.
    """
    shape = (number, *ring.shape[1:])
    storage = ring.untyped_storage()[: math.prod(shape) * ring.element_size()]
    return ring.new_empty(0).set_(storage, 0, shape)  # type: ignore[call-overload]  # torch's stubs lack this form


def describe(columns: dict[str, Any], path: str = "column ") -> dict[str, str]:
    """Return the type and shape of an entry of each column."""
    flat: dict[str, str] = {}
    for key, value in columns.items():
        if isinstance(value, dict):
            flat |= describe(value, f"{path}{key}.")
        else:
            flat[path + key] = f"{value.dtype} {list(value.shape[1:])}"
    return flat
