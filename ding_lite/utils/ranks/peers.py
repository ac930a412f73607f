"""How a rank describes itself to the others: its process, its machine, its versions and its GPU."""

from __future__ import annotations

import os
import platform
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from ding_lite.utils.registry import UserError

ORDERED: tuple[str, ...] = ("x86_64", "AMD64")  # processors that preserve the order of writes
SHOWN_VALUES = 3  # largest number of values that a message lists


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
