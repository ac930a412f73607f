"""Checkpoint files that a crash cannot spoil and that cannot run code when they are read."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from ding_lite.utils.registry import UserError

FORMAT = "ding_lite"
VERSION = 1  # of the file layout; raise it when older code could not read what is written


class CheckpointError(UserError, RuntimeError):
    """A checkpoint that cannot be written or read; the message is one line that names the file and the cause."""


@contextmanager
def atomic_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path` when the block ends without an exception.

    Until then the bytes go to `path + ".tmp"` (removed on failure; one left behind by a killed process is overwritten
    next time), so whoever opens `path` finds the previous file or the complete new one, after a power cut too.
    """
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(directory)  # the rename itself
        finally:
            os.close(directory)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def save_checkpoint(path: str, state: dict[str, Any]) -> None:
    """Write `state` to `path`, all or nothing; the file that was there survives any failure.

    Args:
        path: Missing directories are made. The disk needs room for the old and the new file together.
        state: Tensors, numbers, strings, and dicts, lists and tuples of them; numpy arrays have to become tensors.

    Raises:
        CheckpointError: The file cannot be written, or holds a type that `load_checkpoint` would refuse.
    """
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with atomic_file(path) as file:
            torch.save({"format": FORMAT, "version": VERSION, "state": state}, file)
            file.flush()
            if unsafe := get_unsafe_globals_in_checkpoint(file.name):
                types = ", ".join(sorted(unsafe))
                raise CheckpointError(f"{types} could not be read back, put tensors, numbers or strings instead")
    except (OSError, RuntimeError) as error:
        # torch reports a failed write() as a RuntimeError about stream positions; the context has the real cause
        cause = error.__context__ if isinstance(error.__context__, OSError) else error
        raise CheckpointError(
            f"Cannot save checkpoint '{path}': {_reason(cause)}; the previous file, if any, is unchanged."
        ) from error


def load_checkpoint(path: str, map_location: Any = "cpu") -> dict[str, Any]:
    """Read the state that `save_checkpoint` wrote.

    Every byte is compared with the checksums in the file, and only plain types are built, so neither a damaged nor a
    malicious file gets further than this function.

    Raises:
        CheckpointError: The file is missing, truncated, damaged, of another program or version, or could run code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():  # torch itself does not compare checksums
                raise CheckpointError(f"the checksum of its part '{damaged}' is wrong, the file is damaged")
        payload = torch.load(path, map_location=map_location, weights_only=True)
        _check_header(payload)
    except Exception as error:  # a damaged archive can raise nearly anything; nothing is hidden, all is re-raised
        raise CheckpointError(f"Cannot read checkpoint '{path}': {_reason(error)}.") from error
    return payload["state"]


def _check_header(payload: Any) -> None:
    if not isinstance(payload, dict) or payload.get("format") != FORMAT or "state" not in payload:
        raise CheckpointError("it is a torch file, but not one that save_checkpoint of ding_lite wrote")
    if payload.get("version") != VERSION:
        raise CheckpointError(
            f"it has format version {payload.get('version')}, this ding_lite reads version {VERSION}; "
            "use the ding_lite that wrote it"
        )


def _reason(error: BaseException) -> str:
    if isinstance(error, zipfile.BadZipFile):
        return "it is not a ding_lite checkpoint, or its end is missing"
    if isinstance(error, pickle.UnpicklingError):
        return "it holds objects that could run code when read; do not trust it unless you know where it comes from"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
