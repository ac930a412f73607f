"""Memory that processes of one machine map, so that they can exchange data without sockets.

The memory is a file without a name: it ends with the last process that has it, and only this user's processes can open
it.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

# It has a limited size. Memory of `memfd_create` has none: allocating too much of it kills processes of the machine.
DIRECTORY = "/dev/shm"


def create_memory(length: int) -> int | None:
    """Return the descriptor of `length` new zero bytes; None if the system has no such memory, or too little of it."""
    with suppress(OSError, AttributeError):  # AttributeError: not Linux
        descriptor = os.open(DIRECTORY, os.O_TMPFILE | os.O_RDWR, 0o600)
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
            # What ranks exchange there is unpickled.
            return mmap.mmap(opened, length) if os.fstat(opened).st_uid == os.geteuid() else None
        finally:
            os.close(opened)
    return None
