"""The ranks of one machine, which communicate in shared memory.

A message to another process takes about 350 us, even if it holds one number. Ranks that map the same memory see each
other's writes immediately, so a barrier takes about a microsecond. This needs a processor that makes the writes of one
core visible in order, as x86-64 does; ranks on other processors, or without shared memory, each count as a machine.

Shapes: L ranks of this machine, K numbers.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import pickle
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ding_lite.utils.ranks.heartbeat import progress, waiting
from ding_lite.utils.ranks.launch_environment import read_seconds, usable_cores
from ding_lite.utils.ranks.meeting import Peer, check_versions, describe_rank
from ding_lite.utils.ranks.signing import Signer, given_secret
from ding_lite.utils.registry import UserError

SLOT = 1 << 16  # bytes that a rank can give to one collective
LINE = 8  # int64 numbers between two ranks' cells, which puts each on its own cache line
COUNT, LEFT = 0, 1  # in a rank's cells: the number of barriers that it has reached; whether it has left
HEADERS = 2  # in a rank's cells: the headers of its last two collectives
ASKED = 4  # index in a rank's cells of `progress.asked`
KINDS = ("barrier", "sum", "sum over machines", "average", "exchange of objects")
BARRIER, SUM, JOIN, AVERAGE, EXCHANGE = range(len(KINDS))
TOKEN = 8  # bytes of a random token, by which ranks find out whether they share memory
POLL = 0.005  # seconds between two looks at whether the other ranks have come
SPINS = 2000  # polls of a cell, 0.1 ms, before the core is yielded
YIELD = 0.002  # seconds in which a waiting rank only yields its core, before it sleeps
CROWDED = 0.0001  # YIELD with more ranks than cores: Linux may not yield to a rank of another session
PAUSE = (5e-5, 1e-3)  # seconds of the first and of the longest sleep between two polls
PROCESS_CHECK = 0.5  # seconds of sleep after which a waiting rank checks again that the other's process exists
# Ranks map a file without a name in this directory: it ends with the last process that has it, and only this user's
# processes can open it. The directory has a limited size. Memory of `memfd_create` has none: allocating too much of it
# kills processes of the machine.
SHARED_MEMORY = "/dev/shm"


class MachineGroup:
    """The ranks of this machine, and the first ranks of all machines, which represent the others.

    Every rank of a machine has to call the same methods in the same order; each call compares its kind and length
    between the ranks.

    Args:
        groups: the ranks of each machine.
        memory: zeros, `size_of(L)` bytes that all ranks of this machine map; None if L is 1.
        timeout: seconds that a wait may take.
        lost: see `watch_machine_group`.
        signer: of what is sent to other machines.

    Attributes:
        ranks: the global ranks of this machine, in ascending order.
        index: the place of this rank among them.
        machines: the number of machines.
        is_shared_somewhere: whether a machine has several ranks, which share its memory; the same on all ranks.
        world: a weak reference to the process group that this belongs to.
        met: barriers so far; each other collective here has one too.
    """

    def __init__(
        self, groups: list[list[Peer]], memory: Any, timeout: float, lost: Callable[[], bool], signer: Signer
    ) -> None:
        rank = dist.get_rank()
        # A strong reference would keep the group's threads after destroy_process_group.
        self.world = weakref.ref(dist.group.WORLD)
        self._peers = next(group for group in groups if rank in [peer.rank for peer in group])
        self.ranks = [peer.rank for peer in self._peers]
        self.index, self.machines = self.ranks.index(rank), len(groups)
        self.is_shared_somewhere = len(groups) < dist.get_world_size()
        size = len(self.ranks)
        first_ranks, leaders = [group[0].rank for group in groups], dist.group.WORLD
        if len(groups) not in (1, dist.get_world_size()):
            leaders = dist.new_group(first_ranks, backend="gloo")  # inherits the time-out of the whole group
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
        self._timeout, self._lost, self._signer = timeout, lost, signer

    def barrier(self, kind: int = BARRIER, length: int = 0) -> None:
        """Wait until every rank of this machine calls this with the same kind, an index of `KINDS`, and length.

        Raises:
            torch.distributed.DistNetworkError: another rank has left or is lost, or the time-out has passed.
            UserError: another rank called a different collective.
        """
        self.met = met = self.met + 1
        cells, own, header = self._cells, self._own, length * len(KINDS) + kind
        # A rank that has passed this barrier cannot pass the next one without this rank: two headers alternate.
        place = HEADERS + (met & 1)
        cells[own + place] = header
        cells[own] = met
        for cell in self._others:
            if cells[cell] < met:
                self._await(cell)
            if cells[cell + place] != header:
                raise _mismatch(header, cells[cell + place], self.ranks[cell // LINE])

    def _await(self, cell: int) -> None:
        """Wait until another rank has reached the current barrier: poll, then yield the core, then sleep."""
        cells, count = self._cells, self.met
        for _ in range(self._spins):
            if cells[cell] >= count:
                return
        start, pause = time.monotonic(), PAUSE[0]
        slept = checked = 0.0  # seconds that this process ran: it may be suspended meanwhile
        with waiting():
            while cells[cell] < count:
                if not slept and time.monotonic() - start < self._yield:
                    os.sched_yield()
                    continue
                time.sleep(pause)
                slept += pause
                pause = min(1.2 * pause, PAUSE[1])
                self._check(cell, slept)
                if slept - checked >= PROCESS_CHECK:
                    checked, peer = slept, self._peers[cell // LINE]
                    if not peer.state and cells[cell] < count:
                        raise dist.DistNetworkError(f"{peer} is gone: it was killed, or ended while others wait for it")

    def _check(self, cell: int, slept: float) -> None:
        """Raise an error if waiting for the rank of this cell has become pointless."""
        rank = self.ranks[cell // LINE]
        if self._cells[cell + LEFT] and self._cells[cell + COUNT] < self.met:
            raise dist.DistNetworkError(f"rank {rank} has left the shared memory")
        if self._lost():
            raise dist.DistNetworkError("another rank was lost")
        if slept > self._timeout:
            raise dist.DistNetworkError(f"Timed out after {slept:.0f} s in shared memory, waiting for rank {rank}")

    def requests(self) -> list[memoryview[int]]:
        """Return the cell of each rank of this machine for `progress.asked`, this rank's first."""
        return [self._cells[cell + ASKED : cell + ASKED + 1] for cell in (self._own, *self._others)]

    def leave(self) -> None:
        """Tell the others that this rank will reach no further barrier."""
        self._cells[self._own + LEFT] = 1

    # Two buffers alternate. A rank that writes into one has passed the barrier of the other, which all ranks reach only
    # after they have read what was in the first. So each collective needs a single barrier.

    def _next(self) -> int:
        self._turn = 1 - self._turn
        return self._turn

    def sum(self, value_K: np.ndarray) -> np.ndarray:
        """Return the sums of up to `SLOT` / 8 float64 numbers over all ranks of all machines, to the bit the same."""
        turn, size = self._next(), len(value_K)
        self._floats[turn, self.index, :size] = value_K
        self.barrier(SUM, size)
        total_K = self._floats[turn, :, :size].sum(0)
        if self.machines == 1:
            return total_K
        turn = self._next()
        if self.index == 0:
            self.add_machines(torch.from_numpy(total_K))
            self._floats[turn, 0, :size] = total_K
        self.barrier(JOIN, size)
        return self._floats[turn, 0, :size].copy()

    def add_machines(self, total: torch.Tensor) -> None:
        """Add up a tensor of the first ranks of all machines, in place; these ranks alone call this."""
        assert self._leaders is not None
        with waiting():
            dist.all_reduce(total, group=self._leaders())

    def gather(self, value: Any, sources: Sequence[int]) -> list[Any]:
        """Return the objects of the ranks at these places of this machine, one or all of them; they are pickled."""
        data = pickle.dumps(value) if self.index in sources else b""
        found, room, start, longest = [bytearray() for _ in sources], SLOT - 8, 0, 1
        while start < longest:  # objects larger than a slot take several turns
            turn = self._next()
            if self.index in sources:
                part, slot = data[start : start + room], self._bytes[turn, self.index]
                slot[:8].view(np.int64)[0] = len(data)
                slot[8 : 8 + len(part)] = np.frombuffer(part, np.uint8)
            self.barrier(EXCHANGE, sources[0] + 1 if len(sources) == 1 else 0)
            sizes = [int(self._bytes[turn, place, :8].view(np.int64)[0]) for place in sources]
            for whole, place, size in zip(found, sources, sizes, strict=True):
                whole += self._bytes[turn, place, 8 : 8 + max(0, min(size - start, room))].tobytes()
            start, longest = start + room, max(sizes)
        return [pickle.loads(whole) for whole in found]

    def exchange(self, value: Any, src: int | None = None) -> list[Any]:
        """Return the objects of all ranks of all machines, or only that of the global rank `src`; they are pickled."""
        if self.machines == 1:
            return self.gather(value, range(len(self.ranks)) if src is None else [src])
        data = pickle.dumps(value) if src in (None, dist.get_rank()) else b""
        return [pickle.loads(whole) for whole in exchange_bytes(data, self._signer, src)]

    def allocate(self, length: int) -> Any:
        """Return zeros of `length` bytes that all ranks of this machine map; None on all of them if that fails."""
        descriptor = create_memory(length) if self.index == 0 else None
        (there,) = self.gather(descriptor, [0])
        memory = None if there is None else map_memory(self._peers[0].pid, there, length)
        mapped = self.gather(memory is not None, range(len(self.ranks)))
        if descriptor is not None:
            os.close(descriptor)
        return memory if all(mapped) else None


def _mismatch(header: int, other: int, rank: int) -> UserError:
    """Return the error for ranks that call different collectives."""
    own, its = (f"'{KINDS[number % len(KINDS)]}' of length {number // len(KINDS)}" for number in (header, other))
    frame, here = sys._getframe(1), str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame = frame.f_back
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
    return UserError(
        f"Ranks call different collectives: this rank {own} at {place}, but rank {rank} {its}. Every rank has to make "
        "the same calls in the same order: find the call that only some ranks make, for instance in a callback."
    )


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


def _share(signer: Signer) -> tuple[list[list[Peer]], Any]:
    """Return the ranks of each machine, and the memory of this one; a collective call.

    Ranks with the same machine id are assumed to share memory. This is verified: each writes a random token, which all
    others have to read. If one of them cannot, each of them counts as a separate machine.
    """
    rank = dist.get_rank()
    peers = [Peer(*fields) for fields in _gather(describe_rank(rank), signer)]
    check_versions(peers)
    groups: dict[str, list[Peer]] = {}
    for peer in peers:
        groups.setdefault(peer.machine if peer.ordered else str(peer.rank), []).append(peer)
    near = next(group for group in groups.values() if peers[rank] in group)
    length, first = size_of(len(near)), len(near) * LINE * 8
    descriptor = create_memory(length) if peers[rank] == near[0] and len(near) > 1 else None
    there = _gather(descriptor, signer)[near[0].rank]
    memory = None if there is None else map_memory(near[0].pid, there, length)
    places = [slice(first + place * SLOT, first + place * SLOT + TOKEN) for place in range(len(near))]
    token = secrets.token_bytes(TOKEN)
    if memory is not None:
        memory[places[near.index(peers[rank])]] = token
    tokens = _gather(token.hex(), signer)  # now all have written
    found = memory is not None and all(
        memory[place].hex() == tokens[peer.rank] for place, peer in zip(places, near, strict=True)
    )
    shares = _gather(found, signer)
    if descriptor is not None:
        os.close(descriptor)  # the memory lasts as long as a process maps it, however that process ends
    machines: list[list[Peer]] = []
    for group in groups.values():
        machines += [group] if all(shares[peer.rank] for peer in group) else [[peer] for peer in group]
    return machines, memory if all(shares[peer.rank] for peer in near) else None


def _gather(value: Any, signer: Signer) -> list[Any]:
    """Return the values of all ranks as JSON gives them back; a collective call that unpickles nothing."""
    return [json.loads(data) for data in exchange_bytes(json.dumps(value).encode(), signer)]


def exchange_bytes(own: bytes, signer: Signer, src: int | None = None) -> list[bytes]:
    """Return the bytes of all ranks, or only those of rank `src`; a collective call that unpickles nothing.

    Raises:
        RuntimeError: some were not signed by that rank for this exchange.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    sources = range(size) if src is None else [src]
    signer.turn += 1
    message = signer.sign(own, f"{signer.turn}/{rank}") if rank in sources else b""
    length_R = torch.zeros(size, dtype=torch.int64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    length_R[rank] = len(message)
    with waiting():
        work = dist.all_reduce(length_R, async_op=True)
        while not work.is_completed():  # a wait in Python: while torch waits, Python handles no signals
            time.sleep(POLL)
        work.wait()
        lengths = length_R.tolist()
        rows = [torch.zeros(max(lengths), dtype=torch.uint8, device=length_R.device) for _ in sources]
        sent = torch.frombuffer(bytearray(message.ljust(max(lengths))), dtype=torch.uint8).to(length_R.device)
        if src is None:
            dist.all_gather(rows, sent)
        else:
            rows = [sent]
            dist.broadcast(sent, src=src)
        found = [row[: lengths[source]].cpu().numpy().tobytes() for row, source in zip(rows, sources, strict=True)]
    data = [signer.verify(text, f"{signer.turn}/{source}") for text, source in zip(found, sources, strict=True)]
    for source, part in zip(sources, data, strict=True):
        if part is None:
            raise RuntimeError(f"what rank {source} sent is not signed with this job's secret; nothing of it was read")
    return [part for part in data if part is not None]


@dataclass
class _Present:
    """The machine group of this process, and what the next one will be created with, see `watch_machine_group`."""

    group: MachineGroup | None = None
    timeout: float | None = None
    lost: Callable[[], bool] | None = None
    signer: Signer | None = None


_present = _Present()


def machine_group() -> MachineGroup:
    """Return this rank's machine group. The first call after joining a process group creates it, collectively.

    There must be a process group, and this process must not be in a block of `alone`.
    """
    if _present.group is None or _present.group.world() is not dist.group.WORLD:
        signer = _present.signer or Signer(given_secret())
        machines, memory = _share(signer)
        timeout = math.inf if _present.lost else _present.timeout or read_seconds("DING_LITE_TIMEOUT", "600")
        _present.group = MachineGroup(machines, memory, timeout, _present.lost or (lambda: False), signer)
        asked, *progress.near = _present.group.requests()
        asked[0], progress.asked = progress.asked[0], asked
    return _present.group


def watch_machine_group(
    timeout: float | None, lost: Callable[[], bool] | None = None, signer: Signer | None = None
) -> None:
    """Choose how long the next machine group waits, and how it signs.

    Args:
        timeout: in seconds; None: the environment variable DING_LITE_TIMEOUT, else 600.
        lost: returns whether another rank is lost. It replaces the time-out: a watchdog decides.
        signer: of the meeting; None: with the secret in the environment, if there is one.
    """
    _present.timeout, _present.lost, _present.signer = timeout, lost, signer


def leave_machine_group() -> None:
    """Leave the machine group, if there is one: other ranks that wait for this one get an error."""
    if _present.group is not None:
        _present.group.leave()
    _present.group = None
    watch_machine_group(None)


def create_memory(length: int) -> int | None:
    """Return the descriptor of `length` new zero bytes; None if the system has no such memory, or too little of it."""
    with suppress(OSError, AttributeError):  # AttributeError: not Linux
        descriptor = os.open(SHARED_MEMORY, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, length)  # otherwise a full directory kills it later (SIGBUS)
            return descriptor
        except OSError:
            os.close(descriptor)
    return None


def map_memory(pid: int, descriptor: int, length: int) -> mmap.mmap | None:
    """Map the memory that a process of this machine has open; None if that fails, for instance on another machine."""
    with suppress(OSError, ValueError):
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
        try:
            # What ranks exchange there is unpickled; and no file that has a name may be written to.
            found = os.fstat(opened)
            return mmap.mmap(opened, length) if (found.st_uid, found.st_nlink) == (os.geteuid(), 0) else None
        finally:
            os.close(opened)
    return None
