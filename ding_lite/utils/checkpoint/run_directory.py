"""The directory of a run: a new one for every run, the same one on all ranks and after a restart."""

from __future__ import annotations

import glob
import itertools
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ding_lite.utils.directory_lock import holders, lock_directory, unlock_directory
from ding_lite.utils.ranks.collectives import all_gather_object, on_rank_0
from ding_lite.utils.registry import ConfigError, UserError

_locks: dict[str, int] = {}  # directories that this process writes into, and what locks them: closed when it ends
_records: dict[str, dict[str, Any]] = {}  # content of job.json for directories whose runs are resumed
_owners: dict[str, tuple[str, str]] = {}  # directories that this process writes into: their job.json, its mark there
_opened = itertools.count()  # a script may run several experiments; a restarted one opens them in the same order
_paths: list[tuple[str, str]] = []  # directories opened so far: as they were named, and absolute


def open_exp_dir(exp_name: str, resume: bool) -> tuple[str, bool]:
    """Return the directory of this run, and whether the run continues in it; the same on every rank.

    A new run creates `exp_name`, or if that exists `exp_name_YYMMDD_HHMMSS`, or `exp_name_YYMMDD_HHMMSS_k` with k = 1,
    2 ... If torch's elastic launcher has started this job before, it is the directory of that time, which its
    `job.json` identifies. With `resume` it is `exp_name` itself, which does not change until `claim_exp_dir`. Rank 0
    alone decides, because a clock or a file system may look different elsewhere. Collective: every rank must call it.

    Until `release_exp_dir`, or the end of rank 0, no other run can continue in it.

    Raises:
        ConfigError: the directory cannot be created, the one to resume does not exist, or its run is still active.
        SystemExit: the previous attempt was interrupted by a signal, so the job must not continue; with its status.
    """
    record = {"agents": _agents(), "run": next(_opened)}
    path, continues = on_rank_0(lambda: _open(exp_name, resume, record))
    _paths.append((path, os.path.abspath(path)))
    return path, continues


def claim_exp_dir(path: str) -> None:
    """Mark a directory that was opened with `resume` as this job's, and remove the previous run's result.

    A run does so when it has loaded its checkpoint: one that cannot be resumed keeps its result. Rank 0 alone acts.

    Raises:
        ConfigError: the directory cannot be written.
    """
    if path in _records:
        try:
            _write_job(path, _records.pop(path))
        except OSError as error:
            raise ConfigError(f"Cannot resume '{path}': {error.strerror}.") from error


def check_exp_dir(path: str) -> None:
    """Check that no other run continues in a directory in which this process's run writes.

    Where there are locks, none can. Without them the last one goes on, and those before it end here. Rank 0 alone acts.

    Raises:
        UserError: another run has marked the directory as its own.
    """
    job, owner = _owners.get(path, ("", ""))
    if _read_json(job).get("owner", owner) != owner:
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
    return _read_json(os.path.join(exp_dir, "result.json"))


def has_checkpoint(exp_dir: str) -> bool:
    """Return whether a run has saved a checkpoint in a directory."""
    return any(glob.iglob(os.path.join(glob.escape(exp_dir), "ckpt", "*.pth.tar")))


def _agents() -> list[str]:
    """Return the names of the elastic launchers that started the ranks, one per machine; empty without such launchers.

    The name is the folder that a launcher creates for its ranks' error files. It is unique, unlike the run's id, which
    the user may choose, and unlike the count of restarts, which is wrong after another machine has come back.
    """
    attempt_dir, found, _ = os.environ.get("TORCHELASTIC_ERROR_FILE", "").rpartition("/attempt_")
    launched = found and "TORCHELASTIC_RUN_ID" in os.environ
    names = all_gather_object(f"{socket.gethostname()}:{attempt_dir}" if launched else "")
    return sorted(set(names) - {""})


def _open(exp_name: str, resume: bool, record: dict[str, Any]) -> tuple[str, bool]:
    try:
        if resume and not os.path.isdir(exp_name):
            raise ConfigError(f"Cannot resume '{exp_name}': there is no such directory. Set exp_name to the run's own.")
        paths = [exp_name] if resume else [exp_name, *glob.iglob(glob.escape(exp_name.rstrip("/")) + "_*")]
        before = next(filter(lambda path: _is_of_this_run(path, record), paths), None)
        result = read_result(before) if before else {}
        if result.get("stop_reason") == "interrupted":
            raise SystemExit(128 + int(result["signal"]))
        path = before or (exp_name if resume else _make_new_dir(exp_name))
        _locks[path] = _lock(path)
        record["owner"] = str(_read_json(os.path.join(path, "job.json")).get("owner")) if before else uuid.uuid4().hex
        if resume:
            _records[path] = record
        else:
            _write_job(path, record)
    except OSError as error:
        verb = "write into" if resume else "make"
        in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
        reason = f"'{error.filename}' is not a directory" if in_the_way else error.strerror
        raise ConfigError(f"Cannot {verb} the experiment directory '{exp_name}': {reason}; change exp_name.") from error
    return path, resume or before is not None


def _write_job(path: str, record: dict[str, Any]) -> None:
    """Mark the directory as this job's, and remove the previous run's result."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, "result.json"))
    job = os.path.join(path, "job.json")
    _owners[path] = os.path.abspath(job), record["owner"]
    if _read_json(job) != record:  # a restart need not write: the disk may be full by now
        with open(job, "w", encoding="utf-8") as file:
            json.dump(record, file)


def _lock(path: str) -> int:
    try:
        return lock_directory(path)
    except BlockingIOError:
        pids = ", ".join(map(str, holders(path)))
        who = f"process {pids} of this machine" if pids else "a process of another machine or user"
        raise ConfigError(f"Cannot resume '{path}': its run is still active ({who}). Stop that one first.") from None


def _is_of_this_run(path: str, record: dict[str, Any]) -> bool:
    """Return whether an earlier attempt of this run has opened this directory."""
    there = _read_json(os.path.join(path, "job.json"))
    agents = there.get("agents")
    return (
        there.get("run") == record["run"]
        and isinstance(agents, list)  # another program may use the file's name
        and any(agent in agents for agent in record["agents"])
    )


def _read_json(path: str) -> dict[str, Any]:
    """Return the dict in a JSON file; empty if it is missing, incomplete or something else."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def new_name(exp_name: str) -> str:
    """Return the directory that a new run would get now, see `open_exp_dir`."""
    return next(path for path in _names(exp_name) if not os.path.lexists(path))


def _names(exp_name: str) -> Iterator[str]:
    """Yield the names that a new run may get, the first one first."""
    yield exp_name
    stamped = f"{exp_name.rstrip('/')}_{time.strftime('%y%m%d_%H%M%S')}"
    yield stamped
    yield from (f"{stamped}_{k}" for k in itertools.count(1))


def _make_new_dir(exp_name: str) -> str:
    os.makedirs(os.path.dirname(os.path.abspath(exp_name)), exist_ok=True)
    for path in _names(exp_name):
        with suppress(FileExistsError):
            os.mkdir(path)  # atomic: of two runs that start together, one gets the name
            break
    return path
