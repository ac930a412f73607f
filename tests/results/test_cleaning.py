from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ding_lite.results.cleaning import find_checkpoints, find_unevaluated, list_runs, remove, size_of
from ding_lite.results.run import find_directories, read_run
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_run
from tests.run.helpers import last_checkpoint
from tests.run.helpers import run as train


def add_checkpoints(run: Path) -> Path:
    """Write what a run with a replay buffer leaves, of 1,000 bytes each; the last one is another name of the newest."""
    folder = run / "ckpt"
    folder.mkdir()
    names = ["iteration_90", "iteration_100", "iteration_100_2", "iteration_100_2.rank_0", "iteration_100_2.rank_1"]
    for name in [*names, "ckpt_best", "mine"]:
        (folder / f"{name}.pth.tar").write_bytes(bytes(1000))
    (folder / "iteration_80.rank_0.pth.tar.tmp").write_bytes(bytes(1000))
    os.link(folder / "iteration_100_2.pth.tar", folder / "ckpt_last.pth.tar")
    return run


def names(run: Path) -> set[str]:
    return {file.name.removesuffix(".pth.tar") for file in (run / "ckpt").iterdir()}


def test_checkpoints_before_the_newest_are_removed(tmp_path: Path) -> None:
    path = add_checkpoints(write_run(tmp_path / "run"))
    removal = find_checkpoints(read_run(path))
    assert removal is not None
    assert (removal.size, removal.what) == (3000, "3 files of checkpoints")
    remove(removal)
    parts = {"iteration_100_2.rank_0", "iteration_100_2.rank_1"}
    assert names(path) == {"iteration_100_2", "ckpt_best", "ckpt_last", "mine"} | parts
    assert find_checkpoints(read_run(path)) is None
    removal = find_checkpoints(read_run(path), parts=True)
    assert removal is not None
    remove(removal)
    assert names(path) == {"iteration_100_2", "ckpt_best", "ckpt_last", "mine"}


def test_what_an_interrupted_run_needs_to_go_on_stays(tmp_path: Path) -> None:
    path = add_checkpoints(write_run(tmp_path / "run", ending="interrupted"))
    removal = find_checkpoints(read_run(path), parts=True)
    assert removal is not None
    assert {file.name for file in removal.paths} == {
        *("iteration_90.pth.tar", "iteration_100.pth.tar", "iteration_80.rank_0.pth.tar.tmp")
    }


def test_nothing_is_taken_from_killed_and_active_runs(tmp_path: Path) -> None:
    assert find_checkpoints(read_run(add_checkpoints(write_run(tmp_path / "killed", ending=None)))) is None
    path = add_checkpoints(write_run(tmp_path / "run", 0, []))
    found, whole = find_checkpoints(read_run(path)), find_unevaluated(read_run(path))
    assert found is not None
    assert whole is not None
    lock = os.open(path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert find_checkpoints(read_run(path)) is None
    assert find_unevaluated(read_run(path)) is None
    for removal in (found, whole):  # the run has been started since it was found
        with pytest.raises(UserError, match=r"the run is active now. Nothing was removed"):
            remove(removal)
    os.close(lock)
    assert len(names(path)) == 9


def test_a_run_without_evaluations_is_removed_unless_it_holds_something_else(tmp_path: Path) -> None:
    empty = write_run(tmp_path / "empty", 0, [], ending=None)
    (empty / "tracker.json").write_text("{}")  # of a run with a tracker
    removal = find_unevaluated(read_run(empty))
    assert removal is not None
    assert removal.size > 0
    (empty / "notes.txt").touch()
    assert find_unevaluated(read_run(empty)) is None
    (empty / "notes.txt").unlink()
    remove(removal)
    assert not empty.exists()
    assert find_unevaluated(read_run(write_run(tmp_path / "evaluated"))) is None
    damaged = write_run(tmp_path / "damaged")
    (damaged / "metrics.jsonl").write_text("?\n?\n")
    assert find_unevaluated(read_run(damaged)) is None
    assert find_checkpoints(read_run(damaged)) is None  # it has none


def test_a_cleaned_run_can_be_resumed(tmp_path: Path) -> None:
    train("policy.learn.learner.hook.save_ckpt_after_iter=50")
    removal = find_checkpoints(read_run("run"))
    assert removal is not None
    remove(removal)
    train("policy.learn.resume_training=True", max_env_step=360)
    assert last_checkpoint(tmp_path / "run")["learner"]["train_iter"] == 160 + 25  # 5 for each 8 of 40 more steps


def test_runs_are_listed_with_their_end_and_best_return_also_damaged_ones(tmp_path: Path) -> None:
    write_run(tmp_path / "below/a", 0, [10.0, 60.0, 50.0], ending="stop_value", eval_return_best=60.0)
    write_run(tmp_path / "b", 0, [10.0, 70.0, 50.0], ending=None)
    (write_run(tmp_path / "c") / "total_config.py").write_text("main_config = ")
    damaged = write_run(tmp_path / "d", ending=None)
    (damaged / "metrics.jsonl").write_text("?\n{}\n")
    write_run(tmp_path / "e", 0, [], ending=None)
    table = list_runs(list(find_directories(tmp_path)), tmp_path)
    assert [list(row[:1]) + list(row[3:6]) for row in table.rows] == [
        ["b", "killed", "70", "200"],
        ["below/a", "stop_value", "60", "200"],
        ["c", "config damaged", "-", "-"],
        ["d", "metrics damaged", "-", "-"],
        ["e", "killed", "-", "0"],
    ]
    assert {row[6][-2:] for row in table.rows} == {"kB"}


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(1000))
    os.link(tmp_path / "one", tmp_path / "two")
    (tmp_path / "three").symlink_to(tmp_path / "one")
    link = (tmp_path / "three").lstat().st_size
    assert size_of([tmp_path]) == 1000 + link
    assert size_of([tmp_path / "one", tmp_path / "gone"]) == 1000
