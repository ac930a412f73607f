"""How the ranks of a job meet: each describes itself in a store, before they form a process group.

Everybody who reaches the store's port can write into it. Therefore descriptions are signed, see `signing`, and nothing
that comes from it is unpickled. The store of a job of one machine listens only on the loopback address.
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from ding_lite.utils.ranks.launch_environment import Launch, is_loopback
from ding_lite.utils.ranks.signing import Signer, ask_for_secret, given_secret, handing_out, is_handed_out
from ding_lite.utils.registry import UserError

FIRST_MESSAGE = 10.0  # seconds after which a rank says for whom it waits
POLL = 0.02  # seconds between two looks at the store, of at most CROWD ranks; of more, it is proportionally longer
CROWD = 64
MOST = 2.0  # seconds that one look may take; whatever is above, the process was suspended
GOODBYE = 5.0  # seconds that rank 0, whose end may close the store, waits until the others have read it
NEWEST = "ding_lite/meeting"  # the key that holds the name of the newest meeting
UNSIGNED = "what stands in its place is not signed with this job's secret, see DING_LITE_SECRET"
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
    signer: Signer  # signs and verifies the messages of this meeting

    def connect(self, timeout: float) -> dist.TCPStore:
        """Return a connection of its own to the store, because a pending request blocks all others of a connection."""
        return _connect(self.store.host, self.store.port, timeout)


class SignedStore(dist.Store):
    """The store of a meeting, for gloo: an address counts only if a rank of this meeting has signed it.

    A value that is not signed raises a `RuntimeError`. torch keeps no reference to this object, so the caller has to,
    for as long as the process group exists.
    """

    def __init__(self, store: Any, signer: Signer) -> None:
        super().__init__()
        self._store, self._signer = store, signer

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(key, self._sign(value, key))

    def get(self, key: str) -> bytes:
        return self._verify(self._store.get(key), key)

    def compare_set(self, key: str, expected: str | bytes, value: str | bytes) -> bytes:
        before = self._sign(expected, key) if expected else expected
        return self._verify(self._store.compare_set(key, before, self._sign(value, key)), key)

    def check(self, keys: list[str]) -> bool:
        return self._store.check(keys)

    def wait(self, keys: list[str], timeout: timedelta = timedelta(days=1)) -> None:
        self._store.wait(keys, timeout)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(key)

    def _sign(self, value: str | bytes, key: str) -> Any:  # torch takes bytes, in spite of its hints
        return self._signer.sign(value.encode() if isinstance(value, str) else value, key)

    def _verify(self, message: bytes, key: str) -> bytes:
        data = message if message.isdigit() else self._signer.verify(message, key)  # a counter of `add` is not signed
        if data is None:
            raise RuntimeError(f"what stands at {key} in the store is not signed with this job's secret")
        return data


class _Wait:
    """A wait for other ranks: it says for whom it waits, ends after the time-out, and can be interrupted."""

    def __init__(self, launch: Launch, timeout: float) -> None:
        self._launch, self._timeout, self._waited, self._announced = launch, timeout, 0.0, False
        self._last, self._poll = time.monotonic(), poll_period(launch.world_size)

    def pause(self, missing: Callable[[], Sequence[int]], why: str = "") -> None:
        """Wait a moment, or raise a `RuntimeError` after the time-out; `missing` returns who has not come."""
        time.sleep(self._poll)
        now = time.monotonic()
        self._waited += min(now - self._last, MOST)
        self._last = now
        late = self._waited >= self._timeout
        ranks = missing() if late or (self._waited >= FIRST_MESSAGE and not self._announced) else []
        if ranks and late:
            raise RuntimeError(f"{name_ranks(ranks)} did not come{why and f': {why}'}")
        if ranks:
            self._announced, size = True, self._launch.world_size
            sys.stderr.write(
                f"[rank {self._launch.rank}] waiting for {len(ranks)} of {size} ranks at {show_place(self._launch)} "
                f"({name_ranks(ranks)}{why and f': {why}'}). If this should be a single process, unset RANK and "
                "WORLD_SIZE.\n"
            )


def poll_period(world_size: int) -> float:
    """Return the seconds between two looks at the store: however many ranks look, its one thread keeps up."""
    return POLL * max(1, world_size / CROWD)


def show_place(launch: Launch) -> str:
    """Return where the ranks meet, as HOST:PORT."""
    return f"[{launch.addr}]:{launch.port}" if ":" in launch.addr else f"{launch.addr}:{launch.port}"


def loopback_interface() -> str:
    """Return the name of this machine's loopback interface."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def host_store(addr: str, port: int, timeout: float) -> dist.TCPStore:
    """Return a new store of this process, on any free port if `port` is 0; raises a `RuntimeError` if that fails.

    If the address is the loopback address, only this machine reaches it.
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
    return _connect(addr, port, timeout, is_master=True, master_listen_fd=descriptor)


def _connect(addr: str, port: int, timeout: float, **options: Any) -> dist.TCPStore:
    return dist.TCPStore(addr, port, timeout=timedelta(seconds=timeout), wait_for_workers=False, **options)


def _open_store(launch: Launch, timeout: float, wait: _Wait) -> dist.TCPStore:
    """Return the store at the launcher's address: the launcher's own, or one that rank 0 keeps."""
    place = launch.addr, launch.port
    if place not in _stores and launch.rank == 0 and not launcher_hosts_store():
        _stores[place] = host_store(*place, timeout)
    while place not in _stores:
        try:  # torch would wait without saying so, and could not be interrupted
            with socket.create_connection(place, timeout=1) as found:
                addr = found.getpeername()[0]
            _stores[place] = _connect(addr, launch.port, timeout)
        except OSError as error:
            wait.pause(lambda: [0], error.strerror or str(error))
    return _stores[place]


def launcher_hosts_store() -> bool:
    """Return whether torch's launcher hosts the store; otherwise rank 0 does."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def find_meeting_place(timeout: float) -> Launch | None:
    """Return the job of a process group that the user made, whose ranks can `meet`; None without a TCPStore."""
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
    that has taken place waits for the next one, `timeout` seconds at most. `prepared` are keys of the meeting, without
    its prefix, that exist when it has taken place, and their values.

    Raises:
        RuntimeError: the ranks do not meet.
    """
    wait, me = _Wait(launch, timeout), describe_rank(launch.rank)
    store = _open_store(launch, timeout, wait)
    if launch.rank > 0:
        meeting = _join(store, launch, me, wait)
    else:
        with handing_out(launch.port) if is_handed_out(launch) else nullcontext(given_secret()) as secret:
            meeting = _invite(store, launch, me, wait, Signer(secret), prepared)
    read, end = f"{meeting.key}/read", time.monotonic() + GOODBYE
    store.add(read, 1)
    while launch.rank == 0 and store.add(read, 0) < launch.world_size and time.monotonic() < end:
        time.sleep(POLL)
    return meeting


def _invite(
    store: dist.TCPStore, launch: Launch, me: Peer, wait: _Wait, signer: Signer, prepared: Mapping[str, str]
) -> Meeting:
    """Name a meeting, as rank 0, and wait until all others have described themselves in it."""
    key, others = f"ding_lite/{uuid.uuid4().hex}", range(1, launch.world_size)
    for name, value in prepared.items():
        store.set(f"{key}/{name}", value)
    store.set(NEWEST, signer.dump(key, NEWEST))
    signer, keys = signer.derive(key), [f"{key}/is/{rank}" for rank in others]
    found: list[Any] = []  # once all have come, the descriptions; None instead of one that is not signed

    def missing() -> Sequence[int]:
        unsigned = [rank for rank, fields in zip(others, found, strict=False) if fields is None]
        return unsigned or _missing(store, key, others)

    while not found or None in found:
        wait.pause(missing, UNSIGNED if found else "")
        if store.check(keys):
            texts = store.multi_get(keys)
            found = [signer.load(text, f"is/{rank}") for rank, text in zip(others, texts, strict=True)]
    keeper = describe_process(-1, os.getppid()) if launcher_hosts_store() else me
    store.set(f"{key}/all", signer.dump([keeper, me, *found], "all"))
    return Meeting(launch, store, key, [me, *(Peer(*fields) for fields in found)], keeper, signer)


def _missing(store: dist.Store, key: str, ranks: Sequence[int]) -> list[int]:
    """Return the ranks that have not described themselves, with few requests if these are few."""
    if not ranks or store.check([f"{key}/is/{rank}" for rank in ranks]):
        return []
    half = len(ranks) // 2
    return _missing(store, key, ranks[:half]) + _missing(store, key, ranks[half:]) if half else list(ranks)


def _join(store: dist.TCPStore, launch: Launch, me: Peer, wait: _Wait) -> Meeting:
    """Describe this rank in the next meeting, and wait until it has taken place."""
    key, seen, why, signer = "", b"", "", Signer(b"")
    others = [rank for rank in range(1, launch.world_size) if rank != launch.rank]

    def missing() -> Sequence[int]:  # rank 0 may be lost after all have come
        return (_missing(store, key, others) if key and not why else []) or [0]

    while True:
        if key and store.check([f"{key}/all"]):
            everyone = signer.load(store.get(f"{key}/all"), "all")
            keeper, *peers = (Peer(*fields) for fields in everyone or [me])
            if peers and peers[launch.rank][:3] == me[:3]:  # else it is an old message
                return Meeting(launch, store, key, peers, keeper, signer)
        newest = store.get(NEWEST) if store.check([NEWEST]) else seen
        if newest != seen:
            name, inviter, why = _read_invitation(launch, newest)
            if name and not store.check([f"{name}/all"]):
                key, seen, signer = name, newest, inviter.derive(name)
                store.set(f"{key}/is/{launch.rank}", signer.dump(me, f"is/{launch.rank}"))
        wait.pause(missing, why)


def _read_invitation(launch: Launch, message: bytes) -> tuple[str, Signer, str]:
    """Return the name of the newest meeting and who signed it; or why it is not rank 0's."""
    try:
        signer = Signer(ask_for_secret(launch.port) if is_handed_out(launch) else given_secret())
    except OSError as error:
        return "", Signer(b""), f"it hands out no secret: {error.strerror or error}"
    name = signer.load(message, NEWEST)
    return name or "", signer, "" if name else UNSIGNED


class Peer(NamedTuple):
    """A rank, as it described itself; rank -1 is the launcher that started rank 0."""

    rank: int  # global rank; -1 for the launcher
    pid: int  # process id
    born: str  # start time of the process, which tells it from a later one with the same id
    host: str  # name of its machine
    machine: str  # ranks with the same value see each other's processes
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
        state, born, _ = process_state(self.pid)
        return state if born == self.born else ""

    @property
    def is_sibling(self) -> bool:
        """Whether it runs on this machine as this process's user, and the same launcher has started both."""
        try:
            user = os.stat(f"/proc/{self.pid}").st_uid
        except OSError:
            return False
        return user == os.geteuid() and process_state(self.pid)[1:] == (self.born, os.getppid())


def process_state(pid: int) -> tuple[str, str, int]:
    """Return the state letter, start time and parent of a process, empty and 0 if it has ended, if there is /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ("", "", 0) if Path("/proc/self/stat").exists() else ("?", "", 0)
    return ("", "", 0) if fields[0] in "ZX" else (fields[0], fields[19], int(fields[1]))


def machine_id() -> str:
    """Return an id of this machine, or of this container; ranks with the same id see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return uuid.uuid4().hex


def describe_process(rank: int, pid: int, **more: Any) -> Peer:
    """Return the description of this process, or of the launcher that started it."""
    return Peer(rank, pid, process_state(pid)[1], socket.gethostname(), machine_id(), **more)


def describe_rank(rank: int) -> Peer:
    """Return the description of this process; it uses CUDA's current device if there is one."""
    gpu = ""
    if torch.cuda.is_available():
        device = torch.cuda.current_device()
        gpu = str(getattr(torch.cuda.get_device_properties(device), "uuid", f"{machine_id()} {device}"))
    versions = {"ding_lite": sys.modules["ding_lite"].__version__, "torch": torch.__version__, "numpy": np.__version__}
    nccl, ordered = dist.is_nccl_available(), platform.machine() in ORDERED
    return describe_process(rank, os.getpid(), versions=versions, gpu=gpu, nccl=nccl, ordered=ordered)


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
    if shared := [rank for rank, gpu in enumerate(gpus) if gpus.count(gpu) > 1]:
        return "gloo", f"{name_ranks(shared)} share a GPU"
    if without := [peer.rank for peer in peers if not peer.nccl]:
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
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:4]))}{more}"
