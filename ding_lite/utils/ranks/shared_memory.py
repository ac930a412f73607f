"""Files in memory that processes of one machine map, so that they can exchange data without sockets."""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

DIRECTORY = "/dev/shm"
TOKEN = 8  # bytes of a random token, by which ranks find out whether they share memory


def memory_name() -> str:
    """Return a name of the memory that `DIRECTORY` is in; processes with other names cannot share it.

    It is empty if there is no such memory. Equal names prove nothing: two machines may have equal ids.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat(DIRECTORY).st_dev}"
    except OSError:
        return ""


def create_file(length: int) -> str | None:
    """Return the path of a new file of `length` zero bytes in memory; None if there is not enough memory."""
    with suppress(OSError):
        file, name = tempfile.mkstemp(prefix="ding_lite_", dir=DIRECTORY)
        try:
            os.posix_fallocate(file, 0, length)  # otherwise a full /dev/shm would kill the process later with SIGBUS
            return name
        except OSError:
            os.unlink(name)
        finally:
            os.close(file)
    return None


def map_file(path: str, length: int) -> mmap.mmap | None:
    """Map an existing file; None if it does not exist, for instance on another machine."""
    with suppress(OSError, ValueError):
        file = os.open(path, os.O_RDWR)
        try:
            return mmap.mmap(file, length)
        finally:
            os.close(file)
    return None


def create_token() -> bytes:
    """Return `TOKEN` random bytes."""
    return secrets.token_bytes(TOKEN)
