"""Checkpoint files, and what they hold. A crash cannot leave a half-written one; reading one cannot run code."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from ding_lite.utils.directory_lock import find_trap
from ding_lite.utils.disk import describe_os_error
from ding_lite.utils.ranks.heartbeat import writing
from ding_lite.utils.registry import UserError

FORMAT = "ding_lite"
# The errors of file systems that cannot write the names in a directory to disk on demand.
FSYNC_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)
PLAIN = (bool, int, float, str, type(None))
VERSION = 1  # version of the file layout; raise it when older code could not read what is written


class CheckpointError(UserError, RuntimeError):
    """A checkpoint that cannot be written or read; the message is one line that names the file and the cause."""


@contextmanager
def atomic_file(path: str) -> Iterator[BinaryIO]:
    """Open a file that takes the name `path` when the block ends without an exception.

    Until then it is named `path + ".tmp"`. That file is removed on failure; one that a killed process left is
    overwritten next time. A reader of `path` always finds the previous file or the complete new one, even after a power
    cut.
    """
    path = os.path.abspath(path)
    temporary = f"{path}.tmp"
    with writing():
        try:
            with open(temporary, "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            _sync_directory(os.path.dirname(path))
        finally:
            with suppress(OSError):
                os.unlink(temporary)


def _sync_directory(path: str) -> None:
    """Write the names in a directory to disk, where the file system can."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in FSYNC_UNSUPPORTED:
            raise
    finally:
        os.close(directory)


def save_checkpoint(path: str, state: dict[str, Any], record: dict[str, Any] | None = None) -> str:
    """Write `state` to `path`, completely or not at all; on failure an existing file stays unchanged.

    Args:
        path: Missing directories are created. The disk must have room for the old and the new file together.
        state: Tensors, numbers, strings, and dicts, lists and tuples of them; numpy arrays have to become tensors.
        record: Information about the state, of the same types.

    Returns:
        The checksum that `read_checkpoint` compares.

    Raises:
        CheckpointError: The file cannot be written, or holds a type that `load_checkpoint` would refuse.
    """
    payload = {"format": FORMAT, "version": VERSION, "state": state, "record": record or {}}
    try:
        directory = os.path.dirname(os.path.abspath(path))
        os.makedirs(directory, exist_ok=True)
        if trap := find_trap(directory):
            raise CheckpointError(trap.rstrip("."))
        with atomic_file(path) as file:
            _write(payload, file)
            if unsafe := get_unsafe_globals_in_checkpoint(file.name):
                types = ", ".join(sorted(unsafe))
                raise CheckpointError(f"{types} could not be read back, put tensors, numbers or strings instead")
            with zipfile.ZipFile(file) as archive:
                return _checksum(file, archive)
    except Exception as error:  # pickle, torch and zipfile can raise nearly anything; all of it is raised again
        raise CheckpointError(
            f"Cannot save checkpoint '{path}': {_reason(error)}; the previous file, if any, is unchanged."
        ) from error


def _write(payload: dict[str, Any], file: BinaryIO) -> None:
    """Write with torch by path, which is several times as fast as to a file object and makes no copy."""
    try:
        torch.save(payload, file.name)
    except RuntimeError as error:
        try:
            for _ in range(2):  # torch does not say why; a full disk refuses these bytes too
                os.pwrite(file.fileno(), bytes(1 << 16), os.fstat(file.fileno()).st_size)
        except OSError as cause:
            raise cause from error
        raise


def load_checkpoint(path: str, map_location: Any = "cpu") -> dict[str, Any]:
    """Read the state that `save_checkpoint` wrote, as `read_checkpoint` does."""
    return read_checkpoint(path, map_location=map_location)[0]


def read_checkpoint(
    path: str, checksum: str | None = None, map_location: Any = "cpu", mmap: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the state and the record that `save_checkpoint` wrote; the file may be renamed or removed meanwhile.

    Every byte is compared with the checksums in the file, and only plain types are built. A damaged or malicious file
    is therefore refused here.

    Args:
        path: The file.
        checksum: What `save_checkpoint` returned: another file is refused, even if it is intact.
        map_location: As `torch.load` takes it.
        mmap: Tensors are views of the file, not copies in memory. Writing into them does not change the file.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            # torch would read other bytes than are compared here, or take a part for a folder and read nothing at all
            if parts[0].header_offset != 0 or any(part.external_attr or part.compress_type for part in parts):
                raise CheckpointError("its directory is not one that torch writes, the file is damaged")
            if checksum not in (None, _checksum(file, archive)):
                raise CheckpointError("it is not the file that was saved under this name, or it is damaged")
            if damaged := archive.testzip():  # torch itself does not compare checksums
                raise CheckpointError(f"the checksum of its part '{damaged}' is wrong, the file is damaged")
            own = f"/proc/self/fd/{file.fileno()}"  # on Linux a name that stays valid when `path` is renamed or removed
            name = own if os.path.exists(own) else path
            payload = torch.load(name, map_location=map_location, weights_only=True, mmap=mmap)
        types = [type(payload.get(key)) for key in ("state", "record")] if isinstance(payload, dict) else []
        if types != [dict, dict] or payload.get("format") != FORMAT:
            raise CheckpointError("it is a torch file, but not one that save_checkpoint of ding_lite wrote")
        if (version := payload.get("version")) != VERSION:
            raise CheckpointError(
                f"it has format version {version}, this ding_lite reads version {VERSION}; use the ding_lite that "
                "wrote it"
            )
    except Exception as error:  # a damaged archive can raise nearly anything; nothing is hidden, all is re-raised
        raise CheckpointError(f"Cannot read checkpoint '{path}': {_reason(error)}.") from error
    return payload["state"], payload["record"]


def _checksum(file: BinaryIO, archive: zipfile.ZipFile) -> str:
    """Return a checksum of the archive's directory, which has the size and CRC of each part, and of the file's size.

    Its cost does not depend on the size of the file. Together with `testzip` it covers every byte.
    """
    file.seek(archive.start_dir)
    return hashlib.sha256(f"{os.fstat(file.fileno()).st_size} ".encode() + file.read()).hexdigest()


def _reason(error: BaseException) -> str:
    if isinstance(error, zipfile.BadZipFile):
        return "it is not a ding_lite checkpoint, or its end is missing"
    if isinstance(error, pickle.UnpicklingError):
        return "it holds objects that could run code when read; do not trust it unless you know where it comes from"
    if isinstance(error, OSError):
        return describe_os_error(error)
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def to_tensors(state: Any) -> Any:
    """Return nested dicts and lists in which each array is a tensor that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, state)


def to_arrays(state: Any) -> Any:
    """Return nested dicts and lists in which each tensor is an array that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, state)


def storable(values: Any) -> Any:
    """Return a copy of the values of an attribute that a checkpoint can hold: tuples become lists.

    Raises:
        UserError: they are not numbers, texts, arrays of numbers, or lists and dicts of these.
    """
    if isinstance(values, list | tuple):
        return [storable(part) for part in values]
    if isinstance(values, dict):
        return {key: storable(part) for key, part in values.items()}
    if isinstance(values, np.ndarray):
        with suppress(TypeError, ValueError):  # torch has no such type
            return torch.from_numpy(values.copy()).numpy()
    if isinstance(values, np.generic):
        values = values.item()
    if type(values) in PLAIN:
        return values
    found = f"array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
    raise UserError(
        f"set_attr: expected numbers, texts, arrays of numbers, or lists and dicts of these, which a checkpoint can "
        f"hold, got: {found}."
    )


def _map_leaves(fn: Callable[[Any], Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_map_leaves(fn, part) for part in state]
    return {key: _map_leaves(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)
