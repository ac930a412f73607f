"""Reads what a launcher gives a process, in environment variables, such as its place in a job; writes its error file.

The launcher is one of torch's, SLURM's srun, or the user. This module never imports torch.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ding_lite.utils.registry import UserError

OWN_LAUNCHER = "DING_LITE_LAUNCHER"  # variable with the process id of a launcher that does not repeat mistakes
PROCESSES_A_CORE = 4  # more training processes of this machine are refused
LOCAL_RANK = re.compile(r"--local[-_]rank=")  # torch.distributed.launch gives it to scripts; LOCAL_RANK says the same
LEAST_FILES = 64  # open files of a process besides its connections to ranks: standard streams, libraries, logs
RUNS_FILES = 448  # further ones that it may need: environments, data, connections between machines


@contextmanager
def set_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Return a context manager that sets environment variables, and afterwards restores what they were."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


class Launch(NamedTuple):
    """The description of a job by its launcher; address and port are those of the machine of rank 0."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    addr: str
    port: int


def _slurm_environment() -> dict[str, str]:
    """Return SLURM's variables under the names that torch's launchers use; unknown values are empty."""
    env = os.environ
    size = env.get("SLURM_STEP_NUM_TASKS") or env.get("SLURM_NTASKS", "1")
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    per_node = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE", size)
    # Jobs, and steps of a job, that run on one machine at the same time should have different ports.
    port = 20000 + (int(env.get("SLURM_JOB_ID", 0)) + 1009 * int(env.get("SLURM_STEP_ID", 0))) % 20000
    first = re.match(r"(?:[^\[\],]|\[[^\[\]]*\])+", nodes)  # up to the first comma outside brackets
    host = re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0]) if first else ""  # a[01-04,07]b[1-2] begins with a01b1
    # "2(x3),1" means three nodes with two tasks and one node with one task.
    most = str(max(map(int, re.findall(r"\b\d+", per_node)), default=1))
    return {
        "RANK": env["SLURM_PROCID"],
        "WORLD_SIZE": size,
        "LOCAL_RANK": env.get("SLURM_LOCALID", ""),
        "LOCAL_WORLD_SIZE": most,
        "MASTER_ADDR": env.get("MASTER_ADDR") or (loopback() if most == size and host else host),
        "MASTER_PORT": env.get("MASTER_PORT") or str(port),
    }


def read_launch() -> Launch | None:
    """Return the job that torch's launcher, or else SLURM's srun, describes; None if this is the only process.

    Lightning's variables lack RANK: it makes the process group itself, so they describe no job either.

    Raises:
        SystemExit: the variables are incomplete or contradict each other.
    """
    env = dict(os.environ)
    if "NODE_RANK" in env and "RANK" not in env:
        return None
    if not any(name in env for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        # A batch script has a SLURM_PROCID too, but no step: only srun starts several processes.
        if "SLURM_PROCID" not in env or not any(name.startswith("SLURM_STEP") for name in env):
            return None
        env = _slurm_environment()
    elif env.get("RANK") and env.get("WORLD_SIZE"):  # started by hand, on one machine
        env = {"LOCAL_RANK": env["RANK"], "LOCAL_WORLD_SIZE": env["WORLD_SIZE"], **env}
    if env.get("WORLD_SIZE") == "1" and env.get("RANK") in (None, "0"):
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    rank, size, local_rank, local_size, port = (
        int(env[name]) if env.get(name, "").isdecimal() else -1 for name in names
    )
    if 0 <= rank < size and 0 <= local_rank < local_size and port > 0 and env.get("MASTER_ADDR"):
        return Launch(rank, size, local_rank, local_size, env["MASTER_ADDR"], port)
    got = ", ".join(f"{name}={env[name]}" if env.get(name) else f"{name} unset" for name in (*names, "MASTER_ADDR"))
    raise SystemExit(
        "launch environment: expected RANK < WORLD_SIZE, LOCAL_RANK < LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT > 0, "
        f"got {got}. Start with torchrun, python -m torch.distributed.launch or srun, or unset them for one process."
    )


def loopback() -> str:
    """Return the address by which processes of this machine reach each other: 127.0.0.1, or ::1 without IPv4."""
    with suppress(OSError), socket.create_server(("127.0.0.1", 0)):
        return "127.0.0.1"
    return "::1"


def is_loopback(addr: str) -> bool:
    """Return whether an address can only mean this machine. Host names other than localhost may mean more elsewhere."""
    with suppress(ValueError):
        return ipaddress.ip_address(addr).is_loopback
    return addr == "localhost"


def usable_cores() -> int:
    """Return the number of cores of this machine that this process may run on."""
    return len(os.sched_getaffinity(0))


def check_processes(number: int, option: str, gpus: int = 0) -> None:
    """Raise `UserError` if training processes would be many more than the cores, which they would only take in turns.

    `number` would run at the same time, because `option`, such as '--nproc', says so; as many as `gpus` are fine.
    """
    cores = usable_cores()
    most = max(PROCESSES_A_CORE * cores, gpus)
    if number > most:
        raise UserError(
            f"{option}: {number} processes would share {cores} core(s) of this machine, expected at most {most}: lower "
            "it. torchrun starts any number."
        )


def allow_descriptors(world_size: int, hosts_store: bool, launcher_hosts_store: bool = False) -> None:
    """Raise this process's soft limit of open files to what a job of this many ranks needs, and its run besides.

    gloo connects a rank with each other one. Each rank has two connections to the process that hosts the store. If that
    is a launcher, this rank has inherited its limit.

    Raises:
        UserError: the hard limit of this process, or the soft limit of the launcher, is too low.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (math.inf if limit == resource.RLIM_INFINITY else limit for limit in limits)
    store, need = LEAST_FILES + 2 * world_size, LEAST_FILES + world_size * (3 if hosts_store else 1)
    if launcher_hosts_store and soft < store:
        raise UserError(
            f"open files: torch's launcher needs {store} for the store of {world_size} ranks, but may have {soft}. Run "
            f"`ulimit -n {store}` before you start it."
        )
    if hard < need:
        raise UserError(
            f"open files: {world_size} ranks need {need} in one process, but the system allows {hard} (`ulimit -Hn`). "
            "Raise that, for instance in /etc/security/limits.conf, or start fewer ranks."
        )
    if soft < need + RUNS_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(min(hard, need + RUNS_FILES)), limits[1]))


def read_seconds(name: str, default: str, given: float | None = None) -> float:
    """Return a time-out: `given`, else the environment variable `name`, else `default`; `SystemExit` if it is none."""
    text = os.environ.get(name, default) if given is None else str(given)
    if not re.fullmatch(r"\d*\.?\d+|\d+\.", text) or float(text) == 0:
        raise SystemExit(f"time-out ({name}): expected a number of seconds > 0, got {text!r}.")
    return float(text)


def sibling_error_file(launch: Launch, rank: int) -> str:
    """Return the error file of a rank that this process's launcher has started too; empty if there is none.

    torch's launcher has a folder for each of its ranks, named by the local rank; this process knows only its own.
    """
    own, local = Path(os.environ.get("TORCHELASTIC_ERROR_FILE", "")), launch.local_rank + rank - launch.rank
    known = own.parent.name == str(launch.local_rank) and 0 <= local < launch.local_world_size
    return str(own.parent.parent / str(local) / own.name) if known else ""


def end_launcher() -> None:
    """End torch's launcher with a SIGTERM, if it is this process's parent and would start all ranks again.

    It cannot be told otherwise. Call this after a mistake of the user, which every restart would repeat.
    """
    env, parent = os.environ, os.getppid()
    left = env.get("TORCHELASTIC_RESTART_COUNT") != env.get("TORCHELASTIC_MAX_RESTARTS")
    folder, found, _ = env.get("TORCHELASTIC_ERROR_FILE", "").rpartition("/attempt_")
    if not (left and found) or env.get(OWN_LAUNCHER) == str(parent):
        return
    with suppress(OSError):
        os.close(os.open(f"{folder}/mistake", os.O_CREAT | os.O_EXCL))  # of several ranks one sends it
        status = dict(re.findall(r"(\w+):\s*(\S+)", Path(f"/proc/{parent}/status").read_text()))
        # torch's launcher handles the signal; a shell between it and this process does not.
        if status["Uid"] == str(os.getuid()) and int(status["SigCgt"], 16) >> signal.SIGTERM - 1 & 1:
            os.kill(parent, signal.SIGTERM)


def record_cause(
    cause: str, path: str | None = None, trace: str = "", mistake: str = "", lost_peer: bool = False
) -> None:
    """Write why a rank ends to the error file. torch's launcher prints a part of it; `ding_lite` uses all of it.

    Args:
        cause: one line.
        path: the error file; None: this rank's own; empty: there is none.
        trace: the traceback; torch's launcher would print it instead of the cause.
        mistake: the message of a `UserError`, if that is the cause.
        lost_peer: the rank ends because it lost another one.
    """
    path = os.environ.get("TORCHELASTIC_ERROR_FILE") if path is None else path
    if path:
        more: dict[str, object] = {"py_callstack": cause, "timestamp": str(int(time.time()))}
        more |= {"traceback": trace, "mistake": mistake, "lost_peer": lost_peer}
        with suppress(OSError), open(path, "w") as file:
            json.dump({"message": {"message": cause, "extraInfo": more}}, file)


def share(total: int, rank: int, ranks: int) -> range:
    """Return which of `total` things a rank has: they are dealt in order, and ranks differ by one at most."""
    quotient, more = divmod(total, ranks)
    first = rank * quotient + min(rank, more)
    return range(first, first + quotient + (rank < more))
