"""The lock of a run's directory: whoever holds it writes there, and no other run continues in it.

Also its JSON files, and what another user may have left in a directory's place, or in it.

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

CONFIG, METRICS, RESULT = "total_config.py", "metrics.jsonl", "result.json"  # files of a run


def lock_directory(path: str | os.PathLike[str], kind: int = fcntl.LOCK_EX) -> int:
    """Lock a directory, and return the open descriptor that holds the lock.

    Raises:
        BlockingIOError: another process holds it.
    """
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(directory, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise
    except OSError:  # no locks
        pass
    return directory


def unlock_directory(directory: int) -> None:
    """Unlock a directory and close its descriptor, which is not enough if a forked process has inherited it."""
    with suppress(OSError):
        fcntl.flock(directory, fcntl.LOCK_UN)
    os.close(directory)


def is_active(path: str | os.PathLike[str]) -> bool:
    """Return whether a run is writing into a directory."""
    try:
        os.close(lock_directory(path, fcntl.LOCK_SH))  # shared, because several processes may look at the same time
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


def ended_before_learning(directory: str | Path) -> bool:
    """Return whether a run has begun in a directory, but has recorded no learner iteration."""
    records = RecordReader(Path(directory) / METRICS).read()
    return (Path(directory) / CONFIG).is_file() and not any(record.get("train_iter") for record in records)


class RecordReader:
    """Reads the complete lines added to a file of records, which need not exist yet, since the last read.

    Attributes:
        count: lines read so far.
        cut: whether the last read began anew, because a resumed run had cut the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._place = path, 0  # place in bytes
        self.count, self.cut = 0, False

    def read(self, skip: int = 0) -> list[dict[str, Any]]:
        """Return the new records, without the first `skip` lines of the file and without damaged lines."""
        if not os.path.isfile(self._path):  # the run has not begun; reading a FIFO would not end
            return []
        try:
            with open(self._path, "rb") as file:
                self.cut = os.fstat(file.fileno()).st_size < self._place
                if self.cut:
                    self._place = self.count = 0
                file.seek(self._place)
                added = file.read()
        except OSError:
            return []
        added = added[: added.rfind(b"\n") + 1]
        lines = added.split(b"\n")[:-1]
        new = lines[max(skip - self.count, 0) :]
        self._place += len(added)
        self.count += len(lines)
        found = []
        for line in new:
            with suppress(ValueError):  # a full disk cuts lines
                found.append(parse_json(line))
        return [record for record in found if isinstance(record, dict)]


def find_trap(path: str | os.PathLike[str]) -> str:
    """Return what another user has prepared for a run that goes on at a path, in a sentence; empty if nothing.

    That is a link, which leads the run to other files of its user; or a directory among those of many users, such as in
    /tmp, whose config the run would obey. Links and directories of this user and of root are fine.
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
