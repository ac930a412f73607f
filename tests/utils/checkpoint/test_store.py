"""A store always has a checkpoint to continue from, and never takes a damaged one for a good one. One process."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.utils.checkpoint.file import CheckpointError, load_checkpoint, save_checkpoint
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file
from tests.utils.checkpoint.test_file import Evil


def save(store: CheckpointStore, number: int, train_iter: int | None = None) -> str | None:
    state, local = {"number": number}, {"obs": torch.full((1000,), number)}
    return store.save(train_iter or number, state, local)


def filled(directory: Path, *numbers: int, keep: int = 3) -> CheckpointStore:
    store = CheckpointStore(str(directory), keep)
    for number in numbers:
        assert save(store, number) is None
    return store


def files(directory: Path) -> list[str]:
    return sorted(path.name.replace(".pth.tar", "") for path in directory.iterdir())


def newest(directory: Path, number: int) -> Loaded:
    """Load from a store that is opened anew and see that it is all of this number."""
    loaded = CheckpointStore(str(directory), keep=3).load_newest()
    assert loaded.state == {"number": number}
    assert loaded.local_state is not None
    assert (loaded.local_state["obs"] == number).all()
    assert all("\n" not in line for line in loaded.skipped)
    return loaded


def test_the_newest_are_kept_and_the_alias_is_the_last(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20, 30, 40)
    kept = [f"iteration_{n}{part}" for n in (20, 30, 40) for part in ("", ".rank_0")]
    assert files(tmp_path) == ["ckpt_last", *kept]
    assert (tmp_path / "ckpt_last.pth.tar").samefile(tmp_path / "iteration_40.pth.tar")
    assert load_checkpoint(str(tmp_path / "ckpt_last.pth.tar")) == {"number": 40}
    assert (newest(tmp_path, 40).name, newest(tmp_path, 40).skipped) == ("iteration_40", [])


def test_large_parts_are_kept_of_the_newest_only(tmp_path: Path) -> None:
    store = filled(tmp_path, 1, 2)
    assert store.save(3, {"number": 3}, {"obs": torch.full((1000,), 3)}, keep_parts=False) is None
    assert files(tmp_path) == ["ckpt_last", "iteration_1", "iteration_2", "iteration_3", "iteration_3.rank_0"]
    assert newest(tmp_path, 3).name == "iteration_3"
    cut(tmp_path / "iteration_3.pth.tar")
    loaded = CheckpointStore(str(tmp_path), keep=3).load_newest()
    assert (loaded.name, loaded.state, loaded.local_state) == ("iteration_2", {"number": 2}, None)
    assert len(loaded.skipped) == 1


def test_nothing_is_there_in_a_new_run(tmp_path: Path) -> None:
    assert not CheckpointStore(str(tmp_path / "absent"), 3).has_checkpoints()
    store = CheckpointStore(str(tmp_path), 3)
    assert not store.has_checkpoints()
    with pytest.raises(CheckpointError, match=r"No checkpoint in '.*' can be loaded: there is none\.$"):
        store.load_newest()
    save(store, 1)
    assert store.has_checkpoints()
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"Cannot list '.*file': Not a directory\.$"):
        CheckpointStore(str(tmp_path / "file"), 3)


def test_checkpoints_are_ordered_by_number_not_by_letter(tmp_path: Path) -> None:
    filled(tmp_path, 8, 9, 10)
    store = CheckpointStore(str(tmp_path), keep=12)
    for number in range(11, 21):
        assert save(store, number, train_iter=10) is None
    assert newest(tmp_path, 20).name == "iteration_10_11"


def test_the_best_is_never_removed(tmp_path: Path) -> None:
    store = filled(tmp_path, keep=1)
    assert store.save_best({"number": 5}) is None
    for number in (10, 20, 30):
        save(store, number)
    assert load_file(str(tmp_path / "ckpt_best.pth.tar")) == Loaded("ckpt_best", {"number": 5}, None, [])
    assert store.save_best({"number": 6}) is None
    assert load_file(str(tmp_path / "ckpt_best.pth.tar")).state == {"number": 6}
    shutil.rmtree(tmp_path)
    tmp_path.write_text("")
    assert "Cannot save" in (store.save_best({"number": 7}) or "")


# What is damaged is skipped, with a reason.


def flip(path: Path) -> None:
    """Flip a bit of the tensor, or in a global file of a key."""
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"\x14\0\0\0\0\0\0\0" * 8 if "rank" in path.name else b"number")] ^= 1  # 20, many times
    path.write_bytes(whole)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flip": flip,
    "cut": cut,
    "zero length": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "directory": replace_by_directory,
    "link to itself": replace_by_link,
    "another one's": lambda path: shutil.copy(str(path).replace("_20", "_10"), path),
}
REASONS = "not the file that was saved|end is missing|No such file|Is a directory|Too many levels|checksum of its part"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path: Path, damage: str) -> None:
    filled(tmp_path, 10, 20)
    DAMAGES[damage](tmp_path / "iteration_20.pth.tar")
    skipped = newest(tmp_path, 10).skipped
    if damage == "missing":
        assert skipped == []  # without a global file a checkpoint was never committed
        return
    (reason,) = skipped
    assert re.search(rf"iteration_20\.pth\.tar': .*({REASONS}|was saved as 'iteration_10')", reason)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_lost_and_costs_neither_the_interval_nor_a_file(tmp_path: Path, damage: str) -> None:
    filled(tmp_path, 10, 20)
    part = tmp_path / "iteration_20.rank_0.pth.tar"
    DAMAGES[damage](part)
    before = files(tmp_path)
    store = CheckpointStore(str(tmp_path), keep=1)
    with pytest.raises(CheckpointError, match=rf"{part}': .*({REASONS}).* The part of rank 0 of 1 is lost: .*--allow-"):
        store.load_newest()
    assert store.load_newest(allow_lost=True) == Loaded("iteration_20", {"number": 20}, None, [])
    assert files(tmp_path) == before


def test_what_was_not_continued_from_stays_until_the_next_checkpoint_is_committed(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20)
    cut(tmp_path / "iteration_20.pth.tar")
    before = files(tmp_path)
    store = CheckpointStore(str(tmp_path), keep=3)
    assert store.load_newest().name == "iteration_10"
    (tmp_path / "iteration_30.pth.tar.tmp").mkdir()
    assert save(store, 30) is not None
    (tmp_path / "iteration_30.pth.tar.tmp").rmdir()
    assert files(tmp_path) == before
    assert save(store, 30) is None
    assert files(tmp_path) == ["ckpt_last", *(f"iteration_{n}{part}" for n in (10, 30) for part in ("", ".rank_0"))]


def test_nothing_is_removed_before_a_run_that_is_resumed_saves(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20, 30)
    left = ["iteration_20.pth.tar.tmp", "ckpt_best.pth.tar.tmp", "iteration_30_2.rank_0.pth.tar.tmp"]
    left += ["iteration_40.rank_0.pth.tar", "iteration_40.rank_1.pth.tar"]  # of a save that was killed
    others = ["iteration_20_2.rank_0.pth.tar", "iteration_5.rank_1.pth.tar"]  # another run's: ours had gone on since
    for name in (*left, *others):
        (tmp_path / name).write_bytes(b"partial")
    before = files(tmp_path)
    store = CheckpointStore(str(tmp_path), keep=2)
    assert store.load_newest().name == "iteration_30"
    assert files(tmp_path) == before
    assert save(store, 40) is None
    kept = [f"iteration_{n}{part}" for n in (30, 40) for part in ("", ".rank_0")]
    assert files(tmp_path) == sorted(["ckpt_last", *kept, *(name.replace(".pth.tar", "") for name in others)])
    newest(tmp_path, 40)


def test_parts_without_a_checkpoint_stay_where_nothing_can_be_resumed(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    for name in ("iteration_10", "ckpt_last"):
        (tmp_path / f"{name}.pth.tar").unlink()
    assert not CheckpointStore(str(tmp_path), 3).has_checkpoints()
    assert files(tmp_path) == ["iteration_10.rank_0"]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    mine = ["iteration_10_backup.pth.tar", "iteration_7.json", "notes.tmp", "ckpt_best.pth.tar", "iteration_7.pth"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    filled(tmp_path, 20)
    assert all((tmp_path / name).read_text() == "mine" for name in mine)


def test_an_alias_that_a_kill_left_behind_is_brought_up_to_date(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20)
    last = tmp_path / "ckpt_last.pth.tar"
    last.unlink()
    os.link(tmp_path / "iteration_10.pth.tar", last)
    newest(tmp_path, 20)
    assert last.samefile(tmp_path / "iteration_20.pth.tar")


def test_where_there_are_no_hard_links_the_alias_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    filled(tmp_path, 10, 20)
    assert not (tmp_path / "ckpt_last.pth.tar").samefile(tmp_path / "iteration_20.pth.tar")
    assert load_file(str(tmp_path / "ckpt_last.pth.tar")).name == "iteration_20"
    newest(tmp_path, 20)
    assert not any("tmp" in name for name in files(tmp_path))


# A save that fails.


@pytest.mark.parametrize(
    "obstacle", ["iteration_30.rank_0.pth.tar", "iteration_30.pth.tar", "iteration_30.pth.tar.tmp"]
)
def test_a_failed_save_leaves_what_was_there(tmp_path: Path, obstacle: str) -> None:
    store = filled(tmp_path, 10, 20)
    before = files(tmp_path)
    (tmp_path / obstacle).mkdir()
    reason = save(store, 30)
    assert reason is not None
    assert re.fullmatch(r".*Is a directory.*", reason)
    (tmp_path / obstacle).rmdir()
    assert files(tmp_path) == before
    newest(tmp_path, 20)
    assert save(store, 30) is None
    newest(tmp_path, 30)


# A given file.


def test_a_file_is_loaded_by_any_name_with_the_parts_that_it_names(tmp_path: Path) -> None:
    filled(tmp_path / "ckpt", 10, 20)
    for name in ("ckpt_last", "iteration_20"):
        loaded = load_file(str(tmp_path / "ckpt" / f"{name}.pth.tar"))
        assert (loaded.name, loaded.state) == ("iteration_20", {"number": 20})
        assert loaded.local_state is not None
        assert (loaded.local_state["obs"] == 20).all()
    shutil.copy(tmp_path / "ckpt" / "ckpt_last.pth.tar", tmp_path / "mine.pth.tar")
    assert load_file(str(tmp_path / "mine.pth.tar")) == Loaded("iteration_20", {"number": 20}, None, [])


@pytest.mark.parametrize(
    "record", [{"name": 1, "parts": []}, {"name": "x"}, {"name": "../x", "parts": []}, {"name": "x", "parts": [1]}]
)
def test_a_record_of_the_wrong_types_is_refused(tmp_path: Path, record: Any) -> None:
    save_checkpoint(str(tmp_path / "iteration_1.pth.tar"), {"number": 1}, record)
    with pytest.raises(CheckpointError, match="it does not say which parts belong to it"):
        load_file(str(tmp_path / "iteration_1.pth.tar"))


# A kill.


@contextmanager
def unprivileged() -> Iterator[None]:
    """Lose the right to read everything, which tests that are run by root would have."""
    user = os.geteuid()
    try:
        os.seteuid(65534 if user == 0 else user)
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("where", ["file", "directory"])
def test_what_may_not_be_read(tmp_path: Path, where: str) -> None:
    filled(tmp_path / "ckpt", 10, 20)
    for folder in (tmp_path, *tmp_path.parents[:3]):  # pytest makes one more folder for each of several workers
        folder.chmod(folder.stat().st_mode | 0o755)
    part = tmp_path / "ckpt" / "iteration_20.rank_0.pth.tar"
    (part if where == "file" else tmp_path / "ckpt").chmod(0)
    with unprivileged():
        if where == "file":
            with pytest.raises(CheckpointError, match=r"iteration_20\.rank_0\.pth\.tar': Permission denied\."):
                newest(tmp_path / "ckpt", 10)
        else:
            with pytest.raises(CheckpointError, match=r"Cannot list '.*ckpt': Permission denied\.$"):
                CheckpointStore(str(tmp_path / "ckpt"), 3)
    (tmp_path / "ckpt").chmod(0o755)


def test_whoever_forges_a_part_and_its_checksum_still_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(
        {"format": "ding_lite", "version": 1, "state": {"evil": Evil(tmp_path / "was_here")}},
        "iteration_1.rank_0.pth.tar",
    )
    monkeypatch.setattr("ding_lite.utils.checkpoint.file._checksum", lambda *_: "forged")
    save_checkpoint("iteration_1.pth.tar", {"number": 1}, {"name": "iteration_1", "parts": ["forged"]})
    with pytest.raises(CheckpointError, match=r"rank_0.*could run code"):
        load_file("iteration_1.pth.tar")
    assert not (tmp_path / "was_here").exists()
