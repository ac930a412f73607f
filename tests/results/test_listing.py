from __future__ import annotations

import os
from pathlib import Path

from ding_lite.results.listing import best_return, list_runs, size_of
from ding_lite.results.run import find_directories, read_run
from tests.results.helpers import write_run


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


def test_the_best_return_comes_from_the_result_or_the_evaluations(tmp_path: Path) -> None:
    assert best_return(read_run(write_run(tmp_path / "a", eval_return_best=5.0))) == 5.0
    assert best_return(read_run(write_run(tmp_path / "b", ending=None))) == 190.0
