"""How the ranks of a job meet: each describes itself in a store, before they form a process group.

A description has the process, the machine, the versions and the GPU of a rank.

The store holds text and JSON. Nothing that comes from it is unpickled, because everybody who reaches its port can write
into it. The store of a job of one machine listens only on the loopback address.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import platform
import socket
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from ding_lite.utils.ranks.launch_environment import Launch
from ding_lite.utils.registry import UserError

FIRST_MESSAGE = 10.0  # seconds after which a rank says for whom it waits
POLL = 0.02  # seconds between two looks at the store
MOST = 2.0  # seconds that one look may take; whatever is above, the process was suspended
GOODBYE = 5.0  # seconds that rank 0, whose end may close the store, waits until the others have read it
NEWEST = "ding_lite/meeting"  # the key that holds the name of the newest meeting
ORDERED: tuple[str, ...] = ("x86_64", "AMD64")  # processors that preserve the order of writes
SHOWN_VALUES = 3  # largest number of values that a message lists

# The stores that this process has opened: a second context uses them again. An early rank would otherwise look for the
# others in the store of the first context, which rank 0 is about to close.
_stores: dict[tuple[str, int], dist.TCPStore] = {}


class Meeting(NamedTuple):
    """The result of a meeting."""

    launch: Launch
    store: dist.TCPStore  # the store in which the ranks have met
    key: str  # the prefix of all keys of this meeting, which no earlier one had
    peers: list[Peer]  # all ranks
    keeper: Peer  # the process that keeps the store: rank 0, or the launcher that started it

    def connect(self, timeout: float) -> dist.TCPStore:
        """Return a connection of its own to the store, because a pending request blocks all others of a connection."""
        return _connect(self.store.host, self.store.port, timeout)


class _Wait:
    """A wait for other ranks: it says for whom it waits, ends after the time-out, and can be interrupted."""

    def __init__(self, launch: Launch, timeout: float) -> None:
        self._launch, self._timeout, self._waited, self._announced = launch, timeout, 0.0, False
        self._last = time.monotonic()

    def pause(self, missing: Callable[[], Sequence[int]], why: str = "") -> None:
        """Wait a moment; `missing` returns the ranks that have not come yet.

        Raises:
            RuntimeError: the time-out has passed.
        """
        time.sleep(POLL)
        now = time.monotonic()
        self._waited += min(now - self._last, MOST)
        self._last = now
        if self._waited >= self._timeout:
            raise RuntimeError(f"{name_ranks(missing())} did not come{why and f': {why}'}")
        if self._waited >= FIRST_MESSAGE and not self._announced:
            self._announced = True
            ranks, size = missing(), self._launch.world_size
            sys.stderr.write(
                f"[rank {self._launch.rank}] waiting for {len(ranks)} of {size} ranks at {show_place(self._launch)} "
                f"({name_ranks(ranks)}{why and f': {why}'}). If this should be a single process, unset RANK and "
                "WORLD_SIZE.\n"
            )


def show_place(launch: Launch) -> str:
    """Return where the ranks meet, as HOST:PORT."""
    return f"[{launch.addr}]:{launch.port}" if ":" in launch.addr else f"{launch.addr}:{launch.port}"


def is_loopback(addr: str) -> bool:
    """Return whether an address can only mean this machine. Host names other than localhost may mean more elsewhere."""
    with suppress(ValueError):
        return ipaddress.ip_address(addr).is_loopback
    return addr == "localhost"


def loopback_interface() -> str:
    """Return the name of this machine's loopback interface."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def host_store(addr: str, port: int, timeout: float) -> dist.TCPStore:
    """Return a new store of this process, on any free port if `port` is 0.

    If the address is the loopback address, only this machine reaches it.

    Raises:
        RuntimeError: the port is in use, or this process may not listen there.
    """
    descriptor = None
    if is_loopback(addr):
        family, *_, place = socket.getaddrinfo(addr, port, type=socket.SOCK_STREAM)[0]
        try:
            server = socket.create_server(place[:2], family=family)
        except OSError as error:
            why = "EADDRINUSE" if error.errno == errno.EADDRINUSE else f"cannot listen at {addr}:{port}"
            raise RuntimeError(f"{why}: {error.strerror}") from error
        addr, port = server.getsockname()[:2]
        descriptor = server.detach()
    return dist.TCPStore(
        addr,
        port,
        is_master=True,
        timeout=timedelta(seconds=timeout),
        wait_for_workers=False,
        master_listen_fd=descriptor,
    )


def _connect(addr: str, port: int, timeout: float) -> dist.TCPStore:
    return dist.TCPStore(addr, port, timeout=timedelta(seconds=timeout), wait_for_workers=False)


def _open_store(launch: Launch, timeout: float, wait: _Wait) -> dist.TCPStore:
    """Return the store at the launcher's address: the launcher's own, or one that rank 0 keeps."""
    place = launch.addr, launch.port
    if place not in _stores and launch.rank == 0 and not _launcher_keeps_store():
        _stores[place] = host_store(*place, timeout)
    while place not in _stores:
        try:  # torch would wait without saying so, and could not be interrupted
            with socket.create_connection(place, timeout=1) as found:
                addr = found.getpeername()[0]
            _stores[place] = _connect(addr, launch.port, timeout)
        except OSError as error:
            wait.pause(lambda: [0], error.strerror or str(error))
    return _stores[place]


def _launcher_keeps_store() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def find_meeting_place(timeout: float) -> Launch | None:
    """Return the job of a process group that the user made, whose ranks can `meet`; None if its store has no address.

    The ranks meet in the group's store, over a connection of their own.
    """
    world: Any = dist.group.WORLD
    store = world.get_group_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, dist.TCPStore):
        return None
    place = store.host, store.port
    _stores[place] = _connect(*place, timeout)
    return Launch(dist.get_rank(), dist.get_world_size(), 0, 1, *place)


def meet(launch: Launch, timeout: float, prepared: Mapping[str, str]) -> Meeting:
    """Wait until all ranks have described themselves, and return the descriptions; every rank must call it.

    torch's launcher keeps one store for all restarts, and its count of restarts is not unique, because one of two
    machines may have been restarted. Therefore rank 0 names each meeting anew. A rank that finds the name of a meeting
    that has taken place waits for the next one. It takes `timeout` seconds at most. `prepared` are keys of the meeting,
    without its prefix, that exist when it has taken place, and their values.

    Raises:
        RuntimeError: the ranks do not meet.
    """
    wait, me = _Wait(launch, timeout), describe_rank(launch.rank)
    store = _open_store(launch, timeout, wait)
    if launch.rank > 0:
        key = _join(store, launch, me, wait)
    else:
        key = f"ding_lite/{uuid.uuid4().hex}"
        for name, value in prepared.items():
            store.set(f"{key}/{name}", value)
        store.set(NEWEST, key)
        while missing := _missing(store, key, range(1, launch.world_size)):
            wait.pause(lambda: missing)
        keeper = describe_process(-1, os.getppid()) if _launcher_keeps_store() else me
        others = [json.loads(store.get(f"{key}/is/{rank}")) for rank in range(1, launch.world_size)]
        store.set(f"{key}/all", json.dumps([keeper, me, *others]))
    keeper, *peers = (Peer(*fields) for fields in json.loads(store.get(f"{key}/all")))
    store.add(f"{key}/read", 1)
    end = time.monotonic() + GOODBYE
    while launch.rank == 0 and store.add(f"{key}/read", 0) < launch.world_size and time.monotonic() < end:
        time.sleep(POLL)
    return Meeting(launch, store, key, peers, keeper)


def _missing(store: dist.Store, key: str, ranks: Sequence[int]) -> list[int]:
    return [rank for rank in ranks if not store.check([f"{key}/is/{rank}"])]


def _join(store: dist.Store, launch: Launch, me: Peer, wait: _Wait) -> str:
    """Describe this rank in the next meeting, wait until it has taken place, and return its key."""
    key = ""

    def missing() -> list[int]:
        others = [rank for rank in range(1, launch.world_size) if rank != launch.rank]
        return _missing(store, key, others) if key else [0]

    while not (key and store.check([f"{key}/all"])):
        newest = store.get(NEWEST).decode() if store.check([NEWEST]) else key
        if newest != key and not store.check([f"{newest}/all"]):
            key = newest
            store.set(f"{key}/is/{launch.rank}", json.dumps(me))
        wait.pause(missing)
    return key


class Peer(NamedTuple):
    """A rank, as it described itself; rank -1 is the launcher that started rank 0."""

    rank: int  # global rank; -1 for the launcher
    pid: int  # process id
    born: str  # start time of the process, which tells it from a later one with the same id
    host: str  # name of its machine
    machine: str  # ranks with the same value see each other's processes
    error_file: str = ""  # file in which the launcher looks for the cause of a failure; may be empty
    versions: Mapping[str, str] = {}  # versions of the packages that compute
    gpu: str = ""  # id of the GPU that it uses; empty if it has none
    nccl: bool = True  # whether its torch has nccl
    ordered: bool = True  # whether its processor preserves the order of writes, as memory shared with other ranks needs

    def __str__(self) -> str:
        name = f"rank {self.rank}" if self.rank >= 0 else "torch's launcher"
        return f"{name} (pid {self.pid} on {self.host})"

    @property
    def state(self) -> str:
        """The state letter of the process, on its own machine; empty if it has ended."""
        state, born = process_state(self.pid)
        return state if born == self.born else ""


def process_state(pid: int) -> tuple[str, str]:
    """Return the state letter and start time of a process; empty if it has ended. Without /proc, all seem to run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ("", "") if Path("/proc/self/stat").exists() else ("?", "")
    return ("", "") if fields[0] in "ZX" else (fields[0], fields[19])


def machine_id() -> str:
    """Return an id of this machine, or of this container; ranks with the same id see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return uuid.uuid4().hex


def describe_process(rank: int, pid: int) -> Peer:
    """Return the description of this process, or of the launcher that started it."""
    return Peer(rank, pid, process_state(pid)[1], socket.gethostname(), machine_id())


def describe_rank(rank: int) -> Peer:
    """Return the description of this process; it uses CUDA's current device if there is one."""
    gpu = ""
    if torch.cuda.is_available():
        device = torch.cuda.current_device()
        gpu = str(getattr(torch.cuda.get_device_properties(device), "uuid", f"{machine_id()} {device}"))
    versions = {"ding_lite": sys.modules["ding_lite"].__version__, "torch": torch.__version__, "numpy": np.__version__}
    file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    nccl, ordered = dist.is_nccl_available(), platform.machine() in ORDERED
    peer = describe_process(rank, os.getpid())
    return peer._replace(error_file=file, versions=versions, gpu=gpu, nccl=nccl, ordered=ordered)


def check_versions(peers: Sequence[Peer]) -> None:
    """Check that all ranks have the same versions of the packages that compute."""
    found = {name: [peer.versions.get(name, "unknown") for peer in peers] for name in peers[0].versions}
    differ = [f"{name} is {describe_values(values)}" for name, values in found.items() if len(set(values)) > 1]
    if differ:
        raise UserError(f"Ranks have different versions: {'; '.join(differ)}. Install the same versions everywhere.")


def choose_backend(peers: Sequence[Peer]) -> tuple[str, str]:
    """Return the backend of a job of these ranks, and why it is not nccl although there are GPUs.

    nccl needs a GPU of its own for each rank. All ranks choose alike, because they know the GPUs of all.
    """
    gpus = [peer.gpu for peer in peers]
    if not any(gpus):
        return "gloo", ""
    if not all(gpus):
        return "gloo", describe_values(["a GPU" if gpu else "no GPU" for gpu in gpus])
    shared = [rank for rank, gpu in enumerate(gpus) if gpus.count(gpu) > 1]
    if shared:
        return "gloo", f"{name_ranks(shared)} share a GPU"
    without = [peer.rank for peer in peers if not peer.nccl]
    if without:
        return "gloo", f"torch was built without nccl on {name_ranks(without)}"
    return "cpu:gloo,cuda:nccl", ""


def describe_values(values: Sequence[str]) -> str:
    """Return each value once, with the ranks that have it: `32 on ranks 0 to 2, 64 on rank 3`."""
    owners: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        owners.setdefault(value, []).append(rank)
    texts = [f"{value} on {name_ranks(ranks)}" for value, ranks in owners.items()]
    more = [f"{len(texts) - SHOWN_VALUES} other values elsewhere"] if len(texts) > SHOWN_VALUES else []
    return ", ".join(texts[:SHOWN_VALUES] + more)


def name_ranks(ranks: Sequence[int]) -> str:
    """Return ascending ranks as words: `rank 3`, `ranks 0 to 2`, `ranks 0, 2, 4, 6 and 3 more`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    dense = ranks[-1] - ranks[0] == len(ranks) - 1
    if dense and len(ranks) > 2:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:4]))}" + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
