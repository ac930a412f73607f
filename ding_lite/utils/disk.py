"""What to say when a file cannot be written."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ding_lite.utils.registry import ConfigError, UserError


def describe_os_error(error: OSError) -> str:
    """Return what is wrong, in a few words: for a full file system, whether it lacks room or only inodes."""
    if error.errno == errno.ENOSPC and isinstance(error.filename, str):
        with suppress(OSError):
            system = os.statvfs(os.path.dirname(os.path.abspath(error.filename)))
            if system.f_files and not system.f_favail:
                return "No free inodes, see df -i"
    return error.strerror or str(error) or type(error).__name__


@contextmanager
def explaining(what: str, advice: str = "") -> Iterator[None]:
    """Make a `ConfigError` of one line of an error of the file system.

    It says what cannot be done, such as "Cannot write into 'run'", and what to do. With `advice` it names the file too.
    """
    try:
        yield
    except OSError as error:
        where = f" ('{error.filename}')" if error.filename else ""
        end = f"{where}; {advice}" if advice else ""
        raise ConfigError(f"{what}: {describe_os_error(error)}{end}.") from error


def check_temporary_directory() -> None:
    """Raise `UserError` if no temporary file can be written; torch, for one, needs their directory."""
    try:
        with tempfile.TemporaryFile():
            pass
    except OSError as error:
        cause = describe_os_error(error) if error.filename else error.strerror
        advice = "Set TMPDIR to a directory that has room and that you may write into."
        raise UserError(f"Cannot write temporary files: {cause}. {advice}") from error
