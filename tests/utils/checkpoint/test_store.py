"""A store always has a checkpoint to continue from, and never takes a damaged one for a good one. One process."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.utils.checkpoint.file import CheckpointError, load_checkpoint, save_checkpoint
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file

ROOT = Path(__file__).resolve().parents[3]
MARKER = "was_here"


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
    (tmp_path / "iteration_3.rank_0.pth.tar").unlink()
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
REASONS = (
    r"not the file that was saved|end is missing|clean --parts|Is a directory|Too many levels|checksum of its part"
)


@pytest.mark.parametrize("suffix", ["", ".rank_0"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path: Path, damage: str, suffix: str) -> None:
    filled(tmp_path, 10, 20)
    DAMAGES[damage](tmp_path / f"iteration_20{suffix}.pth.tar")
    skipped = newest(tmp_path, 10).skipped
    if (damage, suffix) == ("missing", ""):
        assert skipped == []  # without a global file a checkpoint was never committed
        return
    (reason,) = skipped
    assert re.search(rf"iteration_20{suffix}\.pth\.tar': .*({REASONS}|was saved as 'iteration_10')", reason)


def test_a_part_of_another_save_of_the_same_name_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "a", 10, 20)
    other = filled(tmp_path / "b")
    save(other, 21, 20)
    shutil.copy(tmp_path / "b" / "iteration_20.rank_0.pth.tar", tmp_path / "a")
    assert "not the file that was saved" in newest(tmp_path / "a", 10).skipped[0]
    with pytest.raises(CheckpointError, match=r"rank_0\.pth\.tar': it is not the file that was saved"):
        load_file(str(tmp_path / "a" / "iteration_20.pth.tar"))


def test_all_reasons_are_said_where_nothing_can_be_read(tmp_path: Path) -> None:
    store = filled(tmp_path, 10, 20)
    cut(tmp_path / "iteration_10.pth.tar")
    flip(tmp_path / "iteration_20.rank_0.pth.tar")
    with pytest.raises(CheckpointError, match=r"can be loaded: .*iteration_20\.rank_0.*iteration_10\.pth") as error:
        store.load_newest()
    assert "\n" not in str(error.value)
    assert store.has_checkpoints()  # so that nobody takes it for a new run


def test_a_run_that_continued_from_an_older_one_drops_the_newer(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20, 30)
    flip(tmp_path / "iteration_20.rank_0.pth.tar")
    cut(tmp_path / "iteration_30.pth.tar")
    store = CheckpointStore(str(tmp_path), keep=2)
    assert store.load_newest().name == "iteration_10"
    assert save(store, 21, 20) is None
    names = [f"{name}{part}" for name in ("iteration_10", "iteration_20_2") for part in ("", ".rank_0")]
    assert files(tmp_path) == ["ckpt_last", *names]
    assert newest(tmp_path, 21).skipped == []


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
            assert "iteration_20.rank_0.pth.tar': Permission denied" in newest(tmp_path / "ckpt", 10).skipped[0]
        else:
            with pytest.raises(CheckpointError, match=r"Cannot list '.*ckpt': Permission denied\.$"):
                CheckpointStore(str(tmp_path / "ckpt"), 3)
    (tmp_path / "ckpt").chmod(0o755)


def test_what_was_not_continued_from_stays_until_the_next_checkpoint_is_committed(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20)
    cut(tmp_path / "iteration_20.rank_0.pth.tar")
    before = files(tmp_path)
    store = CheckpointStore(str(tmp_path), keep=3)
    assert store.load_newest().name == "iteration_10"
    (tmp_path / "iteration_30.pth.tar.tmp").mkdir()
    assert save(store, 30) is not None
    (tmp_path / "iteration_30.pth.tar.tmp").rmdir()
    assert files(tmp_path) == before
    assert save(store, 30) is None
    assert files(tmp_path) == ["ckpt_last", *(f"iteration_{n}{part}" for n in (10, 30) for part in ("", ".rank_0"))]


def test_a_damaged_checkpoint_that_cannot_be_removed_takes_no_place(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20)
    replace_by_directory(tmp_path / "iteration_20.pth.tar")
    for number in (11, 12):
        store = CheckpointStore(str(tmp_path), keep=2)
        loaded = store.load_newest()
        assert loaded.state["number"] == number - 1
        assert "Is a directory" in loaded.skipped[0]
        assert save(store, number) is None
    assert [name for name in files(tmp_path) if "rank" in name] == ["iteration_11.rank_0", "iteration_12.rank_0"]


def test_old_checkpoints_that_a_kill_left_are_removed_once_a_newer_one_is_loaded(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20, 30)
    store = CheckpointStore(str(tmp_path), keep=2)
    assert len(files(tmp_path)) == 7
    assert store.load_newest().name == "iteration_30"
    assert files(tmp_path) == ["ckpt_last", *(f"iteration_{n}{part}" for n in (20, 30) for part in ("", ".rank_0"))]


def test_a_checkpoint_that_was_not_committed_is_removed_by_opening(tmp_path: Path) -> None:
    filled(tmp_path, 10, 20)
    before = files(tmp_path)
    filled(tmp_path / "other", 30)
    (tmp_path / "other" / "iteration_30.rank_0.pth.tar").rename(tmp_path / "iteration_30.rank_0.pth.tar")
    (tmp_path / "other" / "iteration_30.pth.tar").rename(tmp_path / "iteration_30.pth.tar.tmp")
    shutil.rmtree(tmp_path / "other")
    for name in ("iteration_40.rank_1.pth.tar", "iteration_20.pth.tar.tmp", "ckpt_best.pth.tar.tmp"):
        (tmp_path / name).write_bytes(b"partial")
    newest(tmp_path, 20)
    assert files(tmp_path) == before


def test_what_a_kill_left_of_the_first_checkpoint_is_removed_by_opening(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    for name in ("iteration_10", "ckpt_last"):
        (tmp_path / f"{name}.pth.tar").unlink()
    assert files(tmp_path) == ["iteration_10.rank_0"]
    assert not CheckpointStore(str(tmp_path), 3).has_checkpoints()
    assert files(tmp_path) == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    mine = ["iteration_10_backup.pth.tar", "iteration_7.json", "notes.tmp", "ckpt_best.pth.tar", "iteration_7.pth"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    newest(tmp_path, 10)
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
    with pytest.raises(CheckpointError, match="it does not say which parts belong to it") as error:
        load_file(str(tmp_path / "iteration_1.pth.tar"))
    assert "\n" not in str(error.value)


class Evil:
    """Unpickling this makes a directory."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (MARKER,)


def test_whoever_forges_a_part_and_its_checksum_still_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"format": "ding_lite", "version": 1, "state": {"evil": Evil()}}, "iteration_1.rank_0.pth.tar")
    monkeypatch.setattr("ding_lite.utils.checkpoint.file._checksum", lambda *_: "forged")
    save_checkpoint("iteration_1.pth.tar", {"number": 1}, {"name": "iteration_1", "parts": ["forged"]})
    with pytest.raises(CheckpointError, match=r"rank_0.*could run code"):
        load_file("iteration_1.pth.tar")
    assert not Path(MARKER).exists()


# A kill.

FORKING = """
    import itertools, os, sys, torch
    from ding_lite.utils.checkpoint.store import CheckpointStore

    def save_for_ever():
        store = CheckpointStore(sys.argv[1], keep=2)
        start = store.load_newest().state["number"] + 1 if store.has_checkpoints() else 1
        for k in itertools.count(start):
            state = {"number": k, "weight": [torch.full((100_000,), k) for _ in range(3)]}
            local = {"obs": [torch.full((100_000,), k) for _ in range(3)]}
            assert store.save(k, state, local) is None
            os.write(1, b"%d " % k)

    for _ in sys.stdin:  # a process each, without importing torch each time
        pid = os.fork()
        if pid == 0:
            os.write(1, b"%d\\n" % os.getpid())  # the child itself: its parent might write after the first number
            try:
                save_for_ever()
            finally:
                os._exit(1)
        status = os.waitpid(pid, 0)[1]
        os.write(1, b"%d\\n" % status)
"""


def save_until_killed(server: subprocess.Popen[str], seconds: float) -> list[int]:
    """Let a process save checkpoints of 2.4 MB a part, kill it, and return the numbers of those that it reported."""
    assert server.stdin is not None
    assert server.stdout is not None
    print(file=server.stdin, flush=True)
    pid = int(server.stdout.readline())
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    *reported, status = map(int, server.stdout.readline().split())
    assert status == signal.SIGKILL
    return reported


def check_after_kill(directory: Path, reported: int) -> int:
    """See that the newest checkpoint is the last reported one, or the one after it, and that nothing else is there."""
    store = CheckpointStore(str(directory), keep=2)
    if not store.has_checkpoints():
        assert (reported, files(directory)) == (0, [])
        return 0
    loaded = store.load_newest()
    number = loaded.state["number"]
    assert number - reported in (0, 1)  # killed between the commit and the report: 1
    assert loaded.local_state is not None
    assert all((tensor == number).all() for tensor in (*loaded.state["weight"], *loaded.local_state["obs"]))
    assert loaded.skipped == []
    names = [f"iteration_{n}{part}" for n in range(max(1, number - 1), number + 1) for part in ("", ".rank_0")]
    assert files(directory) == sorted(["ckpt_last", *names])
    assert (directory / "ckpt_last.pth.tar").samefile(directory / f"{loaded.name}.pth.tar")
    return number


def test_kill_9_while_saving_loses_no_checkpoint_that_was_reported(tmp_path: Path) -> None:
    rng, last = random.Random(0), 1
    command = [sys.executable, "-c", textwrap.dedent(FORKING), str(tmp_path / "ckpt")]
    tensors = [torch.ones(100_000) for _ in range(3)]
    store = CheckpointStore(str(tmp_path / "ckpt"), keep=2)
    assert store.save(1, {"number": 1, "weight": tensors}, {"obs": tensors}) is None
    pipe, env = subprocess.PIPE, {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True) as server:
        for _ in range(10):
            reported = save_until_killed(server, rng.uniform(0.0, 0.5))
            last = check_after_kill(tmp_path / "ckpt", max([last, *reported]))
    assert last > 1
