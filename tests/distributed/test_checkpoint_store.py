"""Two ranks save and load as one: they return alike, raise alike, and take the same checkpoint."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.utils import CheckpointError, all_gather_object, get_rank
from ding_lite.utils.checkpoint.store import CheckpointStore, Loaded, load_file
from tests.distributed.on_ranks import call_on_ranks


def save(store: CheckpointStore, number: int) -> str | None:
    """Save a state that only rank 0 has right, and a part that says whose it is; large enough to not be one page."""
    state = {"number": number if get_rank() == 0 else -1, "weight": torch.full((1000,), number)}
    local = {"obs": torch.full((100_000,), 1000 * get_rank() + number)}
    return store.save(number, state, local)


def describe(loaded: Loaded) -> list[Any]:
    obs = None if loaded.local_state is None else loaded.local_state["obs"].unique().tolist()
    return [loaded.name, loaded.state["number"], loaded.state["weight"].unique().tolist(), obs, loaded.skipped]


def save_on_rank(directory: str) -> list[Any]:
    store = CheckpointStore(directory, keep=2)
    return [store.has_checkpoints(), [save(store, number) for number in (10, 20, 30)], store.has_checkpoints()]


def load_on_rank(directory: str) -> list[Any]:
    """Load the newest one, then a given file."""
    store, outcomes = CheckpointStore(directory, keep=2), list[Any]()
    assert store.has_checkpoints()
    loads: list[Callable[[], Loaded]] = [
        store.load_newest,
        lambda: load_file(os.path.join(directory, "ckpt_last.pth.tar")),
    ]
    for load in loads:
        try:
            outcomes.append(describe(load()))
        except CheckpointError as error:
            outcomes.append(f"CheckpointError: {error}")
    return outcomes


def full_disk_on_1(directory: str) -> list[Any]:
    store = CheckpointStore(directory, keep=2)
    if get_rank() == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))  # a part has 800 kB
    reason = save(store, 40)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    loaded = describe(store.load_newest())  # by now both have removed their parts
    left = all_gather_object(sorted(os.listdir(directory)))[get_rank()]  # and neither saves yet
    return [reason, left, loaded, save(store, 40)]


def own_directories(directory: str) -> list[Any]:
    """Save as on two machines that do not see each other's files; then open again."""
    own = os.path.join(directory, f"machine_{get_rank()}")
    store = CheckpointStore(own, keep=2)
    saved = [save(store, number) for number in (10, 20, 30)]
    outcome = [saved, describe(CheckpointStore(own, keep=2).load_newest()), sorted(os.listdir(own))]
    all_gather_object(None)
    if get_rank() == 1:  # another machine has its part now
        part = "iteration_30.rank_1.pth.tar"
        os.replace(os.path.join(own, part), os.path.join(directory, "machine_0", part))
    all_gather_object(None)
    return [*outcome, describe(CheckpointStore(own, keep=2).load_newest())]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which two ranks saved three checkpoints and kept two."""
    directory = tmp_path_factory.mktemp("saved") / "ckpt"
    assert call_on_ranks(save_on_rank, str(directory)) == [[False, [None] * 3, True]] * 2
    return directory


@pytest.fixture
def ckpt(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "ckpt")
    return tmp_path / "ckpt"


def expected(number: int, rank: int) -> list[Any]:
    return [f"iteration_{number}", number, [number], [1000 * rank + number]]


def names(*numbers: int) -> list[str]:
    parts = [f"iteration_{n}{part}.pth.tar" for n in numbers for part in ("", ".rank_0", ".rank_1")]
    return sorted(["ckpt_last.pth.tar", *parts])


def test_each_rank_gets_its_part_and_all_the_state_of_rank_0(ckpt: Path) -> None:
    assert sorted(os.listdir(ckpt)) == names(20, 30)
    assert call_on_ranks(load_on_rank, str(ckpt)) == [[[*expected(30, rank), []]] * 2 for rank in (0, 1)]


def test_a_damaged_part_of_one_rank_is_lost_to_both(ckpt: Path) -> None:
    part = ckpt / "iteration_30.rank_1.pth.tar"
    part.write_bytes(part.read_bytes()[:-1000])
    reason = (
        f"CheckpointError: Cannot read checkpoint '{part}': it is not a ding_lite checkpoint, or its end is missing."
    )
    outcomes = call_on_ranks(load_on_rank, str(ckpt))
    assert outcomes[0] == outcomes[1]
    assert all(outcome.startswith(f"{reason} The part of rank 1 of 2 is lost: bring it") for outcome in outcomes[0])
    assert sorted(os.listdir(ckpt)) == names(20, 30)


def test_without_any_global_file_that_can_be_read_all_raise_the_same(ckpt: Path) -> None:
    for number in (20, 30):
        (ckpt / f"iteration_{number}.pth.tar").write_bytes(b"")
    first, second = call_on_ranks(load_on_rank, str(ckpt))
    assert first == second
    assert first[0].startswith(f"CheckpointError: No checkpoint in '{ckpt}' can be loaded: Cannot read ")
    assert [f"iteration_{number}.pth.tar" in first[0] for number in (20, 30)] == [True, True]


def test_a_rank_that_cannot_write_stops_the_save_of_all_and_loses_nothing(ckpt: Path) -> None:
    outcomes = call_on_ranks(full_disk_on_1, str(ckpt))
    cause = f"[rank 1] Cannot save checkpoint '{ckpt}/iteration_40.rank_1.pth.tar': File too large; the previous"
    for rank, (reason, left, loaded, later) in enumerate(outcomes):
        assert reason.startswith(cause)
        assert left == names(20, 30)
        assert loaded == [*expected(30, rank), []]
        assert later is None
    assert sorted(os.listdir(ckpt)) == names(30, 40)


def test_another_number_of_ranks_gets_the_parts_of_all(ckpt: Path) -> None:
    loaded = CheckpointStore(str(ckpt), 2).load_newest()
    assert loaded.local_state is None
    assert [part and part["obs"].unique().tolist() for part in loaded.of_ranks] == [[30], [1030]]
    cut = ckpt / "iteration_30.rank_0.pth.tar"
    whole = cut.read_bytes()
    cut.write_bytes(whole[:-1000])
    for _ in range(2):  # what a rank does not need it does not read; here no other rank reads it either
        loaded = CheckpointStore(str(ckpt), 2).load_newest(needs=lambda parts, lost: [1])
        assert [part and part["obs"].unique().tolist() for part in loaded.of_ranks] == [None, [1030]]
        cut.write_bytes(whole)


@pytest.mark.parametrize("lose", [Path.unlink, Path.touch])
def test_a_part_that_is_lost_is_an_error_unless_it_is_allowed(ckpt: Path, lose: Callable[[Path], None]) -> None:
    parts = [ckpt / f"iteration_30.rank_{rank}.pth.tar" for rank in (0, 1)]
    parts[1].write_bytes(b"")
    lose(parts[1])
    store = CheckpointStore(str(ckpt), 2)
    with pytest.raises(CheckpointError, match=r"_30\.rank_1\.pth\.tar': .* The part of rank 1 of 2 is lost: "):
        store.load_newest()
    loaded = store.load_newest(allow_lost=True)
    first, second = loaded.of_ranks
    assert first is not None
    assert first["obs"].unique().tolist() == [30]
    assert (second, loaded.lost) == (None, [1])
    parts[0].unlink()
    loaded = store.load_newest(allow_lost=True)
    assert (loaded.name, loaded.local_state, loaded.of_ranks) == ("iteration_30", None, [])


def test_the_parts_of_ranks_that_are_gone_are_removed(ckpt: Path) -> None:
    (ckpt / "iteration_20.rank_0.pth.tar").unlink()  # a gap hides none of the others
    store = CheckpointStore(str(ckpt), 1)
    store.load_newest()
    assert save(store, 40) is None
    assert sorted(os.listdir(ckpt)) == ["ckpt_last.pth.tar", "iteration_40.pth.tar", "iteration_40.rank_0.pth.tar"]


def test_ranks_need_not_see_each_others_files(tmp_path: Path) -> None:
    first, second = call_on_ranks(own_directories, str(tmp_path))
    assert [first[:2], second[:2]] == [[[None] * 3, [*expected(30, rank), []]] for rank in (0, 1)]
    assert [first[3], second[3]] == [[*expected(30, rank), []] for rank in (0, 1)]  # a rank that finds it sends it
    assert first[2] == [name for name in names(20, 30) if "rank_1" not in name]
    assert second[2] == [name for name in names(20, 30) if "rank_1" in name]
