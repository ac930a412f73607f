"""Compression of image frames for a checkpoint.

Shapes: T rows, N environments, `[T N, ...]` frames in time order.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

CHUNK = 2**23  # bytes that are compressed together, before compression
WORTHWHILE = 4  # the first chunk must shrink by this factor: writing to disk is about as fast as compressing
LEVEL = 1  # of zlib; higher levels take longer and gain little


def compress_frames(frames: Tensor, num_envs: int) -> Tensor | dict[str, Any]:
    """Return frames in compressed form, or unchanged if they are not image bytes or hardly shrink.

    Successive frames of an environment differ in few pixels. So each is replaced by its bitwise difference from the
    frame before, which is mostly zero.

    Args:
        frames: `[T N, ...]`.
        num_envs: N.

    Returns:
        The frames themselves, or a dict of `chunks` (uint8 tensors), `rows` (T of a chunk) and `shape` (of a row).
    """
    if frames.dtype != torch.uint8 or frames.ndim < 3 or not len(frames):
        return frames
    row_T = frames.unflatten(0, (-1, num_envs))
    rows = max(1, CHUNK // row_T[0].nbytes)
    chunks: list[Tensor] = []
    for part in row_T.split(rows):
        array = part.numpy(force=True)
        delta = np.concatenate([array[:1], array[1:] ^ array[:-1]])
        chunk = zlib.compress(delta.tobytes(), LEVEL)
        if not chunks and WORTHWHILE * len(chunk) > array.nbytes:
            return frames
        chunks.append(torch.frombuffer(bytearray(chunk), dtype=torch.uint8))
    return {"chunks": chunks, "rows": rows, "shape": list(row_T.shape[1:])}


def decompress_frames(frames: Tensor | dict[str, Any], into: Tensor) -> None:
    """Write what `compress_frames` returned into the first places of `into`, `[T N, ...]`."""
    if isinstance(frames, Tensor):
        into[: len(frames)].copy_(frames)
        return
    shape, place = frames["shape"], 0
    for chunk in frames["chunks"]:
        delta = np.frombuffer(zlib.decompress(chunk.numpy().tobytes()), np.uint8).reshape(-1, *shape)
        array = np.bitwise_xor.accumulate(delta, axis=0).reshape(-1, *shape[1:])
        into[place : place + len(array)].copy_(torch.from_numpy(array))
        place += len(array)
