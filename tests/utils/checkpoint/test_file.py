"""A checkpoint is complete or absent, is never mistaken for a good one when it is not, and never runs code."""

import errno
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.utils.checkpoint.file import (
    FORMAT,
    VERSION,
    CheckpointError,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from ding_lite.utils.checkpoint.store import CheckpointStore


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ckpt" / "iteration_1.pth.tar")


def small_state(value: int = 7) -> dict[str, Any]:
    return {"weight": torch.full((64,), value), "envstep": value, "nested": [None, (1.5, "x", True)]}


def assert_equal_states(state: dict[str, Any], expected: dict[str, Any]) -> None:
    assert torch.equal(state["weight"], expected["weight"])
    assert {**state, "weight": 0} == {**expected, "weight": 0}


def only_file(path: str) -> bool:
    return os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_state_comes_back_with_values_and_types(path: str) -> None:
    save_checkpoint(path, small_state())
    assert_equal_states(load_checkpoint(path), small_state())
    assert only_file(path)


def test_parameters_that_share_one_storage_are_written_once(path: str) -> None:
    flat = torch.randn(100_000)  # 400 kB
    save_checkpoint(path, {"views": [flat[:50_000], flat[50_000:]], "flat": flat})
    assert os.path.getsize(path) < 410_000
    views = load_checkpoint(path)["views"]
    assert torch.equal(torch.cat(views), flat)


def test_a_full_disk_keeps_the_previous_file_and_removes_the_partial_one(path: str) -> None:
    save_checkpoint(path, small_state(1))
    os.symlink("/dev/full", f"{path}.tmp")  # writes there end in ENOSPC
    with pytest.raises(CheckpointError, match=r"iteration_1\.pth\.tar': No space left on device; the previous"):
        save_checkpoint(path, {"weight": torch.zeros(100_000)})
    assert only_file(path)
    assert_equal_states(load_checkpoint(path), small_state(1))


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
def test_a_file_system_that_cannot_sync_directories_keeps_checkpoints(
    path: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Some network file systems and FUSE cannot; a disk that fails is still an error."""
    sync = os.fsync

    def sync_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_files)
    store = CheckpointStore(os.path.dirname(path), keep=2)
    reasons = [store.save(iteration, small_state(iteration), None) for iteration in (1, 2)]
    if number == errno.EIO:
        assert all(reason and "Input/output error" in reason for reason in reasons)
    else:
        assert reasons == [None, None]
        assert_equal_states(store.load_newest().state, small_state(2))


def test_a_mapped_state_outlives_its_file_and_does_not_write_to_it(path: str) -> None:
    save_checkpoint(path, small_state())
    whole = Path(path).read_bytes()
    state, _ = read_checkpoint(path, mmap=True)
    state["weight"][0] = 0
    assert Path(path).read_bytes() == whole
    save_checkpoint(path, small_state(1))
    os.unlink(path)
    assert state["weight"].tolist() == [0] + [7] * 63


def with_bytes_before(whole: bytes) -> bytes:
    """Zip readers differ in what they make of this: one could compare the checksums of bytes that the other ignores."""
    return whole.replace(torch.full((64,), 7).numpy().tobytes(), bytes(512)) + whole


def with_a_folder(whole: bytes) -> bytes:
    """Torch would return memory as it was, without reading anything."""
    place = whole.rindex(b"PK\x01\x02", 0, whole.rindex(b"/data/0")) + 38  # external attributes, the bit for a folder
    return whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]


@pytest.mark.parametrize("change", [with_bytes_before, with_a_folder])
def test_an_archive_that_torch_does_not_write_is_refused(path: str, change: Callable[[bytes], bytes]) -> None:
    save_checkpoint(path, small_state())
    Path(path).write_bytes(change(Path(path).read_bytes()))
    with pytest.raises(CheckpointError, match=r"directory is not one that torch writes"):
        load_checkpoint(path)


class Evil:
    """Unpickling this makes a directory."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def test_a_malicious_checkpoint_runs_nothing(path: str, tmp_path: Path) -> None:
    marker = tmp_path / "was_here"
    os.makedirs(os.path.dirname(path))
    torch.save({"format": FORMAT, "version": VERSION, "state": Evil(marker)}, path)
    with pytest.raises(CheckpointError, match="could run code"):
        load_checkpoint(path)
    Path(path).write_bytes(pickle.dumps({"format": FORMAT, "version": VERSION, "state": Evil(marker)}))
    with pytest.raises(CheckpointError, match="not a ding_lite checkpoint"):
        load_checkpoint(path)
    assert not marker.exists()


def test_what_could_not_be_read_back_is_refused_when_saving(path: str) -> None:
    save_checkpoint(path, small_state(1))
    with pytest.raises(CheckpointError, match=r"'.*': numpy.* could not be read back, put tensors"):
        save_checkpoint(path, {"running_mean": np.zeros(3)})
    assert only_file(path)
    assert_equal_states(load_checkpoint(path), small_state(1))


@pytest.mark.parametrize("mmap", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_no_changed_byte_changes_what_is_read(path: str, mmap: bool) -> None:
    checksum = save_checkpoint(path, small_state())
    whole = bytearray(Path(path).read_bytes())
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    read_without, read_with = list[int](), list[int]()  # positions whose change is not noticed
    for position in range(len(whole)):
        whole[position] ^= 0xFF
        Path(path).write_bytes(whole)
        whole[position] ^= 0xFF
        for expected, unnoticed in ((None, read_without), (checksum, read_with)):
            with suppress(CheckpointError):
                assert_equal_states(read_checkpoint(path, expected, mmap=mmap)[0], small_state())
                unnoticed.append(position)  # in padding, or in a field that nobody reads
    assert set(read_with) <= set(read_without)
    assert all(position < directory for position in read_with)
    assert len(whole) - len(read_without) > 512 + 500  # of the tensor alone 512 bytes, and of the pickle


HEADER = {"format": FORMAT, "version": VERSION}
FOREIGN = "not one that save_checkpoint of ding_lite wrote"


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        *((each, FOREIGN) for each in ({"model": torch.zeros(1)}, torch.zeros(1), HEADER)),
        ({**HEADER, "state": {}, "record": 3}, FOREIGN),
        (
            {**HEADER, "version": 99, "state": {}, "record": {}},
            rf"format version 99, this ding_lite reads version {VERSION}",
        ),
    ],
)
def test_a_torch_file_of_another_program_or_version_is_refused(path: str, payload: Any, message: str) -> None:
    os.makedirs(os.path.dirname(path))
    torch.save(payload, path)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(path)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'.*absent': No such file or directory\.$"):
        load_checkpoint(str(tmp_path / "absent"))
    with pytest.raises(CheckpointError, match=r"Is a directory\.$"):
        load_checkpoint(str(tmp_path))
