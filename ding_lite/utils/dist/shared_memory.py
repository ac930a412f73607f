"""Creates memory that all processes of one machine share, so that they can exchange data without sockets."""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from contextlib import suppress

import torch
import torch.distributed as dist
from torch import Tensor

from ding_lite.utils.dist.ranks import get_rank, get_world_size

DIRECTORY = "/dev/shm"
TOKEN_BYTES = 8


def create_shared_rows(size: int, dtype: torch.dtype) -> Tensor | None:
    """Return zeros `[ranks, size]` in memory that every rank maps; a collective call.

    The launcher's variables do not prove that ranks share memory, so this is tested: each rank writes a random token
    that all others must read. The file of the memory is then removed, so the memory is released with the last process
    that uses it, however that process ends.

    Args:
        size: number of elements of a row, at least `TOKEN_BYTES` bytes.
        dtype: dtype of the elements.

    Returns:
        The rows. None on every rank if some ranks share no memory with each other, or if there is not enough memory.
    """
    world_size, rank = get_world_size(), get_rank()
    if world_size == 1:
        return None
    length = world_size * size * dtype.itemsize
    path = [_create_file(length) if rank == 0 else None]
    dist.broadcast_object_list(path)
    rows = None if path[0] is None else _map_rows(path[0], length, world_size, dtype)
    tokens: list[bytes] = [b""] * world_size
    dist.all_gather_object(tokens, b"" if rows is None else _write_token(rows[rank]))  # now all have written
    same_R = [False] * world_size
    dist.all_gather_object(same_R, rows is not None and [_read_token(row) for row in rows] == tokens)
    if rank == 0 and path[0] is not None:
        os.unlink(path[0])
    if rows is None or not all(same_R):
        return None
    rows[rank].zero_()
    dist.barrier()  # all tokens are gone
    return rows


def _create_file(length: int) -> str | None:
    """Return the path of a new file of `length` bytes in memory; None if there is not enough memory."""
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


def _map_rows(path: str, length: int, world_size: int, dtype: torch.dtype) -> Tensor | None:
    """Map an existing file as `[ranks, size]`; None if it does not exist, for instance on another machine."""
    with suppress(OSError, ValueError):
        file = os.open(path, os.O_RDWR)
        try:
            return torch.frombuffer(mmap.mmap(file, length), dtype=dtype).view(world_size, -1)
        finally:
            os.close(file)
    return None


def _write_token(row: Tensor) -> bytes:
    token = secrets.token_bytes(TOKEN_BYTES)
    row.view(torch.uint8)[:TOKEN_BYTES] = torch.frombuffer(bytearray(token), dtype=torch.uint8)
    return token


def _read_token(row: Tensor) -> bytes:
    return bytes(row.view(torch.uint8)[:TOKEN_BYTES].tolist())
