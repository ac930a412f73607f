"""The directory of a run: a new one for every run, the same one on all ranks and after a restart."""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ding_lite.utils.checkpoint.file import atomic_file
from ding_lite.utils.directory_lock import find_trap_inside, holders, lock_directory, read_json, unlock_directory
from ding_lite.utils.disk import describe_os_error, explaining
from ding_lite.utils.ranks.collectives import all_gather_object, on_rank_0
from ding_lite.utils.ranks.meeting import name_ranks
from ding_lite.utils.registry import ConfigError, UserError

_locks: dict[str, int] = {}  # directories that this process writes into, and what locks them: closed when it ends
_records: dict[str, dict[str, Any]] = {}  # content of job.json for directories whose runs are resumed
_owners: dict[str, tuple[str, str]] = {}  # directories that this process writes into: their job.json, its mark there
_changes: dict[str, str] = {}  # directories in which a job of other machines goes on: how its machines have changed
_opened = itertools.count()  # a script may run several experiments; a restarted one opens them in the same order
_paths: list[tuple[str, str]] = []  # directories opened so far: as they were named, and absolute


def open_exp_dir(exp_name: str, resume: bool) -> tuple[str, bool]:
    """Return the directory of this run, and whether the run continues in it; the same on every rank. Collective.

    A new run creates `exp_name`, or if that exists `exp_name_YYMMDD_HHMMSS`, or `exp_name_YYMMDD_HHMMSS_k` with k = 1,
    2 ... If torch's elastic launcher has started this job before, on these machines or on some of them, it is the
    directory of that time, which its `job.json` identifies. With `resume` it is `exp_name` itself, which does not
    change until `claim_exp_dir`. Until `release_exp_dir`, or the end of rank 0, no other run can continue in it.

    Raises:
        ConfigError: the directory cannot be created, the one to resume does not exist, or its run is still active.
        SystemExit: a user's signal ended the previous attempt, so the job must not continue; with its status.
        UserError: the job goes on in a directory whose files rank 0 does not see.
    """
    number, (folder, restarts) = next(_opened), _agent()
    mark = os.path.join(folder, f"exp_dir_{number}")
    marked = ""
    with suppress(OSError), open(mark, encoding="utf-8") as file:
        marked = file.read()
    ranks = all_gather_object((socket.gethostname(), folder, restarts, marked))
    record = {"agents": _agents(ranks), "run": number}
    known = [path for *_, path in ranks if path]
    path, continues = on_rank_0(lambda: _open(exp_name, resume, record, known))
    _paths.append((path, os.path.abspath(path)))
    if folder:
        with suppress(OSError), open(mark, "w", encoding="utf-8") as file:
            file.write(_paths[-1][1])
    return path, continues


def changed_machines(path: str) -> str:
    """Return, on rank 0, a line about machines that joined or left the job that goes on in a directory, or ""."""
    return _changes.get(path, "")


def claim_exp_dir(path: str) -> None:
    """Mark a directory that was opened with `resume` as this job's, and remove the previous run's result.

    A run does so when it has loaded its checkpoint: one that cannot be resumed keeps its result. Rank 0 alone acts.
    """
    if path in _records:
        with explaining(f"Cannot resume '{path}'"):
            _write_job(path, _records.pop(path))


def check_exp_dir(path: str) -> None:
    """Check that no other run continues in a directory in which this process's run writes.

    Where there are locks, none can. Without them the last one goes on, and those before it end here. Rank 0 alone acts.
    """
    job, owner = _owners.get(path, ("", ""))
    if read_json(job).get("owner", owner) != owner:
        raise UserError(
            f"Another run continues in '{path}', whose file system has no locks: this one ends without saving, so that "
            "they do not write into the same files."
        )


def opened_exp_dirs() -> int:
    """Return how many directories of runs this process has opened so far."""
    return len(_paths)


def last_exp_dir() -> str:
    """Return the directory of the run that this process opened last; empty if there was none.

    If the current directory has changed since, the path is absolute.
    """
    path, absolute = _paths[-1] if _paths else ("", os.getcwd())
    return path if os.path.abspath(path) == absolute else absolute


def release_exp_dir(path: str) -> None:
    """Let other runs continue in a directory that `open_exp_dir` returned."""
    _records.pop(path, None)
    _owners.pop(path, None)
    if path in _locks:
        unlock_directory(_locks.pop(path))


def read_result(exp_dir: str) -> dict[str, Any]:
    """Return result.json of the run that last opened a directory; empty while it runs, or if it was killed."""
    return read_json(os.path.join(exp_dir, "result.json"))


def has_checkpoint(exp_dir: str) -> bool:
    """Return whether a run has saved a checkpoint in a directory."""
    return any(glob.iglob(os.path.join(glob.escape(exp_dir), "ckpt", "*.pth.tar")))


def _agent() -> tuple[str, int]:
    """Return the folder of the elastic launcher that started this rank, and its restarts; empty without one.

    It holds the ranks' error files. It is unique, unlike the run's id, which the user may choose.
    """
    folder, found, _ = os.environ.get("TORCHELASTIC_ERROR_FILE", "").rpartition("/attempt_")
    if not found or "TORCHELASTIC_RUN_ID" not in os.environ:
        return "", 0
    return folder, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))


def _agents(ranks: list[tuple[str, str, int, str]]) -> dict[str, dict[str, Any]]:
    """Return the elastic launchers of all ranks, one per machine, by their names."""
    agents: dict[str, dict[str, Any]] = {}
    for rank, (host, folder, restarts, _) in enumerate(ranks):
        if folder:
            agent = agents.setdefault(f"{host}:{folder}", {"host": host, "restarts": restarts, "ranks": []})
            agent["ranks"].append(rank)
    return agents


def _open(exp_name: str, resume: bool, record: dict[str, Any], known: list[str]) -> tuple[str, bool]:
    try:
        if resume and not os.path.isdir(exp_name):
            raise ConfigError(f"Cannot resume '{exp_name}': there is no such directory. Set exp_name to the run's own.")
        paths = [exp_name] if resume else [exp_name, *glob.iglob(glob.escape(exp_name.rstrip("/")) + "_*")]
        jobs = ((path, read_json(os.path.join(path, "job.json"))) for path in paths)
        new: tuple[str, dict[str, Any]] = "", {"owner": uuid.uuid4().hex}
        before, there = next(((path, job) for path, job in jobs if _is_of_this_run(job, record)), new)
        if before:
            _check_interrupt(read_result(before), there["agents"], record["agents"])
            _changes[before] = _describe_changes(there["agents"], record["agents"])
        elif not resume and known and not os.path.exists(os.path.join(known[0], "job.json")):
            raise UserError(
                f"This job goes on in '{known[0]}', but its files are not on {socket.gethostname()}, where rank 0 runs "
                "now: where machines come and go, set exp_name to a path in a directory that all of them share."
            )
        path = before or (exp_name if resume else _make_new_dir(exp_name))
        if trap := find_trap_inside(path):
            raise ConfigError(f"Cannot resume '{path}': {trap}")
        try:
            _locks[path] = lock_directory(path)
        except BlockingIOError:
            pids = ", ".join(map(str, holders(path)))
            who = f"process {pids} of this machine" if pids else "a process of another machine or user"
            raise ConfigError(
                f"Cannot resume '{path}': its run is still active ({who}). Stop that one first."
            ) from None
        record["owner"] = str(there.get("owner"))
        if resume:
            _records[path] = record
        else:
            _write_job(path, record)
    except OSError as error:
        verb = "write into" if resume else "make"
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = f"'{error.filename}' is not a directory" if in_the_way else describe_os_error(error)
        raise ConfigError(f"Cannot {verb} the experiment directory '{exp_name}': {reason}; change exp_name.") from error
    return path, resume or bool(before)


def _check_interrupt(result: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise `SystemExit` if a user's signal ended the previous attempt of a job, as its result says.

    torch's launchers send their ranks the same SIGTERM when a machine wants to join. The launchers are others
    afterwards, or those that sent it have not counted a restart: they count only failures, such as a signal from
    somebody else.
    """
    same = before.keys() == now.keys() and all(now[name]["restarts"] > before[name]["restarts"] for name in now)
    if result.get("stop_reason") == "interrupted" and same:
        raise SystemExit(128 + int(result["signal"]))


def _describe_changes(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> str:
    """Return which launchers are new, and which are gone, in a line; empty if there are none."""
    changes = [
        f"{agent['host']} {verb} ({name_ranks(agent['ranks'])})"
        for verb, some, others in (("left", before, now), ("joined", now, before))
        for name, agent in some.items()
        if name not in others
    ]
    size, old = (
        f"{sum(len(agent['ranks']) for agent in job.values())} rank(s) of {len(job)} machine(s)"
        for job in (now, before)
    )
    return f"{', '.join(changes)}: the run goes on with {size}, before {old}." if changes else ""


def _write_job(path: str, record: dict[str, Any]) -> None:
    """Mark the directory as this job's, and remove the previous run's result."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, "result.json"))
    job = os.path.join(path, "job.json")
    _owners[path] = os.path.abspath(job), record["owner"]
    before = read_json(job)
    try:
        if before != record:
            with atomic_file(job) as file:
                file.write(json.dumps(record).encode())
    except OSError:
        if before.get("owner") != record["owner"]:  # a restart goes on although the disk is full by now
            raise


def _is_of_this_run(job: dict[str, Any], record: dict[str, Any]) -> bool:
    """Return whether the job of a directory is an earlier attempt of this run."""
    agents = job.get("agents")  # another program may use the file's name
    return (
        job.get("run") == record["run"] and isinstance(agents, dict) and not agents.keys().isdisjoint(record["agents"])
    )


def rename_for_seed(exp_name: str, seed: int, always: bool = False) -> str:
    """Return an experiment's name with its ending `_seedN` set to a seed; `always`: added if there is none."""
    name, found = re.subn(r"_seed-?\d+$", f"_seed{seed}", exp_name)
    return f"{name}_seed{seed}" if always and not found else name


def new_name(exp_name: str) -> str:
    """Return the directory that a new run would get now, see `open_exp_dir`."""
    return next(path for path in _names(exp_name) if not os.path.lexists(path))


def _names(exp_name: str) -> Iterator[str]:
    """Yield the names that a new run may get, the first one first."""
    stamped = f"{exp_name.rstrip('/')}_{time.strftime('%y%m%d_%H%M%S')}"
    yield from (exp_name, stamped)
    yield from (f"{stamped}_{k}" for k in itertools.count(1))


def _make_new_dir(exp_name: str) -> str:
    os.makedirs(os.path.dirname(os.path.abspath(exp_name)), exist_ok=True)
    for path in _names(exp_name):
        with suppress(FileExistsError):
            os.mkdir(path)  # atomic: of two runs that start together, one gets the name
            break
    return path
