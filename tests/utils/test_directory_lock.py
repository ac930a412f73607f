"""The lock of a run's directory."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from ding_lite.utils.directory_lock import is_active, lock_directory, unlock_directory


def test_one_holds_the_lock_and_others_see_it(tmp_path: Path) -> None:
    assert not is_active(tmp_path)
    directory = lock_directory(tmp_path)
    assert is_active(tmp_path)
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(BlockingIOError):
        lock_directory(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == open_files
    unlock_directory(directory)
    assert not is_active(tmp_path)


def test_whoever_looks_does_not_seem_active_to_another(tmp_path: Path) -> None:
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_active(tmp_path)
    os.close(looking)


def test_without_locks_every_directory_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("ding_lite.utils.directory_lock.fcntl.flock", no_locks)
    directory = lock_directory(tmp_path)
    assert not is_active(tmp_path)
    unlock_directory(directory)
