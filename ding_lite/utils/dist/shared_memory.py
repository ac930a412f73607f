"""Memory that all processes of one machine see, so that what they exchange need not go through sockets."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

import torch
import torch.distributed as dist
from torch import Tensor

from ding_lite.utils.dist.ranks import get_local_world_size, get_rank, get_world_size

DIRECTORY = "/dev/shm"


def create_shared_rows(size: int, dtype: torch.dtype) -> Tensor | None:
    """Return zeros `[ranks, size]` that every rank maps; a collective call.

    No name of it is left in the file system, so that it is gone with its last process, however that ends.

    Returns:
        None on every rank if the ranks are not all on one machine, or it has no room for this or does not let them.
    """
    world_size = get_world_size()
    if world_size == 1 or get_local_world_size() != world_size:
        return None
    path: list[str | None] = [None]
    count = world_size * size
    if get_rank() == 0:
        with suppress(OSError):
            file, name = tempfile.mkstemp(prefix="ding_lite_", dir=DIRECTORY)
            try:
                os.posix_fallocate(file, 0, count * dtype.itemsize)  # else a full /dev/shm is noticed by a SIGBUS
                path = [name]
            except OSError:
                os.unlink(name)
            finally:
                os.close(file)
    dist.broadcast_object_list(path)
    rows = None
    if path[0] is not None:
        with suppress(OSError, RuntimeError):
            rows = torch.from_file(path[0], shared=True, size=count, dtype=dtype).view(world_size, size)
    mapped = [False] * world_size
    dist.all_gather_object(mapped, rows is not None)
    if get_rank() == 0 and path[0] is not None:
        os.unlink(path[0])
    return rows if all(mapped) else None
