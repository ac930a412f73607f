"""The ranks of one machine, which communicate in shared memory.

A message to another process takes about 350 us, even if it holds one number. Ranks that map the same memory see each
other's writes immediately, so a barrier takes about a microsecond. This needs a processor that makes the writes of one
core visible in order, as x86-64 does; ranks on other processors, or without shared memory, each count as a machine.

Shapes: L ranks of this machine, K numbers.
"""

from __future__ import annotations

import os
import pickle
import platform
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ding_lite.utils.ranks import shared_memory
from ding_lite.utils.ranks.heartbeat import read_seconds, waiting
from ding_lite.utils.ranks.launch_environment import usable_cores

ORDERED = ("x86_64", "AMD64")  # processors that preserve the order of writes
SLOT = 1 << 16  # bytes that a rank can give to one collective
LINE = 8  # int64 numbers between two ranks' cells, which puts each on its own cache line
COUNT, LEFT = 0, 1  # in a rank's cells: the number of barriers that it has reached; whether it has left
SPINS = 2000  # polls of a cell, 0.1 ms, before the core is yielded
YIELD = 0.002  # seconds in which a waiting rank only yields its core, before it sleeps
CROWDED = 0.0001  # the same with more ranks than cores: Linux may not yield to a rank of another session
PAUSE = (5e-5, 1e-3)  # seconds of the first and of the longest sleep between two polls


class MachineGroup:
    """The ranks of this machine, and the first ranks of all machines, which represent the others.

    Every rank of a machine has to call the same methods in the same order.

    Args:
        groups: the global ranks of each machine.
        memory: zeros, `size_of(L)` bytes that all ranks of this machine map; None if L is 1.
        timeout: seconds that a wait may take.
        lost: returns whether another rank is known to be lost, so that waiting for it is pointless.

    Attributes:
        ranks: the global ranks of this machine, in ascending order.
        index: the place of this rank among them.
        machines: the number of machines.
        is_shared_somewhere: whether a machine has several ranks, which share its memory; the same on all ranks.
        world: a weak reference to the process group that this belongs to.
        met: barriers so far; each other collective here has one too.
    """

    def __init__(self, groups: list[list[int]], memory: Any, timeout: float, lost: Callable[[], bool]) -> None:
        rank = dist.get_rank()
        # A strong reference would keep the group's threads after destroy_process_group.
        self.world = weakref.ref(dist.group.WORLD)
        self.ranks = next(group for group in groups if rank in group)
        self.index, self.machines = self.ranks.index(rank), len(groups)
        self.is_shared_somewhere = len(groups) < dist.get_world_size()
        size = len(self.ranks)
        leaders = _create_leaders(groups, timeout)
        self._leaders = weakref.ref(leaders) if self.index == 0 else None
        memory = memory if memory is not None else bytearray(size_of(size))
        first = size * LINE * 8
        self._cells = memoryview(memory)[:first].cast("q")
        self._own = self.index * LINE
        self._others = [place * LINE for place in range(size) if place != self.index]
        self._bytes = np.frombuffer(memory, np.uint8, offset=first).reshape(2, size, SLOT)
        self._floats = self._bytes.view(np.float64)
        self._turn, self.met = 0, 0
        crowded = size > usable_cores()
        self._spins, self._yield = (0, CROWDED) if crowded else (SPINS, YIELD)
        self._timeout, self._lost = timeout, lost

    def barrier(self) -> None:
        """Wait until every rank of this machine calls this.

        Raises:
            torch.distributed.DistNetworkError: another rank has left or is lost, or the time-out has passed.
        """
        self.met += 1
        self._cells[self._own] = self.met
        for cell in self._others:
            if self._cells[cell] < self.met:
                self._await(cell)

    def _await(self, cell: int) -> None:
        """Wait until another rank has reached the current barrier: poll, then yield the core, then sleep."""
        cells, count = self._cells, self.met
        for _ in range(self._spins):
            if cells[cell] >= count:
                return
        start, pause = time.monotonic(), PAUSE[0]
        with waiting():
            while cells[cell] < count:
                if time.monotonic() - start < self._yield:
                    os.sched_yield()
                    continue
                time.sleep(pause)
                pause = min(1.2 * pause, PAUSE[1])
                self._check(cell, start)

    def _check(self, cell: int, start: float) -> None:
        """Raise an error if waiting for the rank of this cell has become pointless."""
        rank, seconds = self.ranks[cell // LINE], time.monotonic() - start
        if self._cells[cell + LEFT] and self._cells[cell + COUNT] < self.met:
            raise dist.DistNetworkError(f"rank {rank} has left the shared memory")
        if self._lost():
            raise dist.DistNetworkError("another rank was lost")
        if seconds > self._timeout:
            raise dist.DistNetworkError(f"Timed out after {seconds:.0f} s in shared memory, waiting for rank {rank}")

    def leave(self) -> None:
        """Tell the others that this rank will reach no further barrier."""
        self._cells[self._own + LEFT] = 1

    # Two buffers alternate. A rank that writes into one has passed the barrier of the other, which all ranks reach only
    # after they have read what was in the first. So each collective needs a single barrier.

    def _next(self) -> int:
        self._turn = 1 - self._turn
        return self._turn

    def sum(self, value_K: np.ndarray) -> np.ndarray:
        """Return the sums of float64 numbers over all ranks of all machines; every rank gets the same bits.

        K may be at most `SLOT` / 8.
        """
        turn, size = self._next(), len(value_K)
        self._floats[turn, self.index, :size] = value_K
        self.barrier()
        total_K = self._floats[turn, :, :size].sum(0)
        return total_K if self.machines == 1 else self._join_machines(total_K)

    def _join_machines(self, total_K: np.ndarray) -> np.ndarray:
        turn, size = self._next(), len(total_K)
        if self.index == 0:
            self.add_machines(torch.from_numpy(total_K))
            self._floats[turn, 0, :size] = total_K
        self.barrier()
        return self._floats[turn, 0, :size].copy()

    def add_machines(self, total: torch.Tensor) -> None:
        """Add up a tensor of the first ranks of all machines, in place; these ranks alone call this, collectively."""
        assert self._leaders is not None
        with waiting():
            dist.all_reduce(total, group=self._leaders())

    def gather(self, value: Any, sources: Iterable[int]) -> list[Any] | None:
        """Return the objects of the ranks at these places of this machine; they are pickled.

        Args:
            value: this rank's object; ignored unless it is a source.
            sources: places among `ranks`.

        Returns:
            The objects of the sources in their order; None on every rank if one is too large for its slot.
        """
        turn, sources = self._next(), list(sources)
        if self.index in sources:
            data = pickle.dumps(value)
            fits = len(data) <= SLOT - 8
            self._bytes[turn, self.index, :8].view(np.int64)[0] = len(data) if fits else -1
            if fits:
                self._bytes[turn, self.index, 8 : 8 + len(data)] = np.frombuffer(data, np.uint8)
        self.barrier()
        sizes = [int(self._bytes[turn, place, :8].view(np.int64)[0]) for place in sources]
        if min(sizes) < 0:
            return None
        pairs = zip(sources, sizes, strict=True)
        return [pickle.loads(self._bytes[turn, place, 8 : 8 + size].tobytes()) for place, size in pairs]

    def allocate(self, length: int) -> Any:
        """Return zeros of `length` bytes that all ranks of this machine map; None on all of them if that fails."""
        path = shared_memory.create_file(length) if self.index == 0 else None
        (path,) = self.gather(path, [0]) or [None]
        memory = None if path is None else shared_memory.map_file(path, length)
        mapped = self.gather(memory is not None, range(len(self.ranks)))
        if path is not None and self.index == 0:
            os.unlink(path)
        return memory if mapped is not None and all(mapped) else None


def describe_ranks() -> str:
    """Return a description of several ranks and of how they exchange numbers, for the user; a collective."""
    group, size, backend = machine_group(), dist.get_world_size(), dist.get_backend()
    if not group.is_shared_somewhere:
        return f"{size} ({backend})"
    between = f" on {group.machines} machines, {backend} between them" if group.machines > 1 else f", {backend}"
    return f"{size} (shared memory{between})"


def size_of(size: int) -> int:
    """Return the bytes that a `MachineGroup` of this many ranks needs."""
    return size * (LINE * 8 + 2 * SLOT)


def _create_leaders(groups: list[list[int]], timeout: float) -> Any:
    """Return the process group of the first rank of each machine; for other ranks it has no meaning."""
    if len(groups) in (1, dist.get_world_size()):
        return dist.group.WORLD
    leaders = [group[0] for group in groups]
    return dist.new_group(leaders, timedelta(seconds=timeout), backend="gloo")


def _share(world_size: int, rank: int) -> tuple[list[list[int]], Any]:
    """Return the ranks of each machine, and the memory of this one; a collective call.

    Ranks whose memory has the same name are assumed to be on one machine. This is verified: each writes a random token,
    which all others have to read. If one of them cannot, each of them counts as a separate machine.
    """
    name = shared_memory.memory_name() if platform.machine() in ORDERED else ""
    groups: dict[str, list[int]] = {}
    for other, its_name in enumerate(_gather(name)):
        groups.setdefault(its_name or f"rank {other}", []).append(other)
    ranks = next(group for group in groups.values() if rank in group)
    length, first = size_of(len(ranks)), len(ranks) * LINE * 8
    creates = rank == ranks[0] and len(ranks) > 1
    path = _gather(shared_memory.create_file(length) if creates else None)[ranks[0]]
    memory = None if path is None else shared_memory.map_file(path, length)
    places = [slice(first + place * SLOT, first + place * SLOT + shared_memory.TOKEN) for place in range(len(ranks))]
    token = shared_memory.create_token()
    if memory is not None:
        memory[places[ranks.index(rank)]] = token
    tokens = _gather(token)  # now all have written
    shared = memory is not None and all(
        memory[place] == tokens[other] for place, other in zip(places, ranks, strict=True)
    )
    shares = _gather(shared)
    if creates and path is not None:
        os.unlink(path)  # the memory lasts as long as a process maps it, however that process ends
    machines: list[list[int]] = []
    for group in groups.values():
        machines += [group] if all(shares[other] for other in group) else [[other] for other in group]
    return machines, memory if shares[rank] and all(shares[other] for other in ranks) else None


def _gather(value: Any) -> list[Any]:
    values: list[Any] = [None] * dist.get_world_size()
    with waiting():
        dist.all_gather_object(values, value)
    return values


@dataclass
class _Present:
    """The machine group of this process, and what the next one will be created with."""

    group: MachineGroup | None = None
    timeout: float | None = None
    lost: Callable[[], bool] = lambda: False


_present = _Present()


def machine_group() -> MachineGroup:
    """Return this rank's machine group. The first call after joining a process group creates it, collectively.

    There must be a process group, and this process must not be in a block of `alone`.
    """
    if _present.group is None or _present.group.world() is not dist.group.WORLD:
        machines, memory = _share(dist.get_world_size(), dist.get_rank())
        timeout = read_seconds("DING_LITE_TIMEOUT", "600", _present.timeout)
        _present.group = MachineGroup(machines, memory, timeout, _present.lost)
    return _present.group


def watch_machine_group(timeout: float, lost: Callable[[], bool]) -> None:
    """Set what the machine group will be created with.

    Args:
        timeout: seconds that a wait may take.
        lost: returns whether another rank is known to be lost.
    """
    _present.timeout, _present.lost = timeout, lost


def leave_machine_group() -> None:
    """Leave the machine group, if there is one: other ranks that wait for this one get an error."""
    if _present.group is not None:
        _present.group.leave()
    _present.group, _present.timeout, _present.lost = None, None, lambda: False
