"""The lock of a run's directory: whoever holds it writes there, and no other run continues in it; its JSON files.

Also what another user may have left in a directory's place, or in it.

Not every network file system has locks. There, every directory seems to be free; of two runs in one directory, the
earlier one ends when it notices the other's mark, see `run_directory.check_exp_dir`.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any


def lock_directory(path: str | os.PathLike[str]) -> int:
    """Lock a directory, and return the open descriptor that holds the lock.

    Raises:
        BlockingIOError: another process holds it.
    """
    return _lock(path, fcntl.LOCK_EX)


def unlock_directory(directory: int) -> None:
    """Unlock a directory and close its descriptor, which is not enough if a forked process has inherited it."""
    with suppress(OSError):
        fcntl.flock(directory, fcntl.LOCK_UN)
    os.close(directory)


def is_active(path: str | os.PathLike[str]) -> bool:
    """Return whether a run is writing into a directory."""
    try:
        os.close(_lock(path, fcntl.LOCK_SH))  # shared, because several processes may look at the same time
    except BlockingIOError:
        return True
    return False


def parse_json(text: str | bytes) -> Any:
    """Return the value of JSON that may be somebody else's.

    Raises:
        ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the dict in a JSON file; empty if it is missing, incomplete or something else."""
    with suppress(OSError, ValueError):
        content = parse_json(Path(path).read_bytes()) if os.path.isfile(path) else {}  # reading a FIFO would not end
        return content if isinstance(content, dict) else {}
    return {}


def find_trap(path: str | os.PathLike[str]) -> str:
    """Return what another user has prepared for a run that goes on at a path, in a sentence; empty if nothing.

    That is a link, which leads the run to other files of its user; or a directory among those of many users, such as in
    /tmp, whose config the run would obey. Links and directories of this user and of root are fine: a run may be moved
    to a larger disk, with a link in its place.
    """
    name = os.fspath(path).rstrip("/") or "/"
    with suppress(OSError):  # it is not there, or cannot be reached, which whoever opens it will say
        status = os.lstat(name)
        shared = stat.S_ISVTX | stat.S_IWOTH
        among_many = os.stat(os.path.dirname(os.path.abspath(name))).st_mode & shared == shared
        if status.st_uid not in (0, os.geteuid()) and (stat.S_ISLNK(status.st_mode) or among_many):
            kind = "link" if stat.S_ISLNK(status.st_mode) else "directory"
            return (
                f"'{name}' is a {kind} of user {status.st_uid}, which could lead the run to other files: "
                "remove it or, if you trust it, make it yours with chown -h."
            )
    return ""


def find_trap_inside(path: str | os.PathLike[str]) -> str:
    """Return what `find_trap` says about a directory or a link anywhere in it."""
    inside = (os.path.join(at, name) for at, folders, files in os.walk(path) for name in (*folders, *files))
    return next(filter(None, map(find_trap, (path, *filter(os.path.islink, inside)))), "")


def holders(path: str | os.PathLike[str]) -> list[int]:
    """Return the processes of this machine that have a directory open, and so may hold its lock, as far as visible.

    A process inherits the lock from the one that forked it, and keeps it longer if it is left over.
    """
    directory, found = os.path.realpath(path), set[int]()
    for opened in glob.iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):  # the owner has ended
            if os.readlink(opened) == directory:
                found.add(int(opened.split("/")[2]))
    return sorted(found - {os.getpid()})


def _lock(path: str | os.PathLike[str], kind: int) -> int:
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(directory, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise
    except OSError:  # no locks
        pass
    return directory
