"""The scores of a run at its marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ding_lite.sweep.scores import PARTS, Evaluations, find_marks


def evaluations(*points: tuple[int, float | None]) -> list[dict[str, Any]]:
    return [{"envstep": x, "train_iter": 2 * x, "eval/return_mean": value} for x, value in points]


def test_marks_are_parts_of_the_limit() -> None:
    marks = find_marks({"max_env_step": 100}, "best")  # a mark every 5 steps
    scores = marks.read(evaluations((0, 1.0), (8, 3.0), (12, 2.0)), ended=False)
    assert scores == {0: 1.0, 1: 3.0}  # at 5 and 10; mark 2, at 15, has not been passed


def test_the_last_evaluation_may_count_instead_of_the_best() -> None:
    records = evaluations((0, 1.0), (8, 3.0), (12, 2.0), (16, None))
    assert find_marks({"max_env_step": 100}, "last").read(records, ended=False) == {0: 1.0, 1: 3.0, 2: 2.0}
    assert find_marks({}, "last").final(records) == 2.0
    assert find_marks({}, "best").final(records) == 3.0
    assert find_marks({}, "best").final([]) is None


def test_a_run_that_ended_early_keeps_its_score() -> None:
    scores = find_marks({"max_env_step": 100}, "best").read(evaluations((0, 1.0), (8, 3.0)), ended=True)
    assert scores == {0: 1.0, **dict.fromkeys(range(1, PARTS), 3.0)}


@pytest.mark.parametrize("key", ["max_train_iter", "max_iter"])
def test_iterations_may_limit_a_run(key: str) -> None:
    scores = find_marks({key: 200}, "best").read(evaluations((0, 1.0), (8, 3.0)), ended=False)
    assert scores == {0: 1.0}  # a mark every 10 iterations, and iteration 16 is the last one


def test_without_a_limit_each_evaluation_is_a_mark() -> None:
    assert find_marks({}, "best").read(evaluations((0, 1.0), (8, 3.0), (9, 2.0)), ended=False) == {0: 1, 1: 3, 2: 3}


def test_evaluations_and_the_newest_record_are_kept_until_a_resumed_run_cuts_them(tmp_path: Path) -> None:
    file, seen = tmp_path / "metrics.jsonl", Evaluations(tmp_path)
    assert seen.read() == []
    lines = [f"{json.dumps(record)}\n" for record in evaluations((0, 1.0), (4, None), (8, None), (9, 3.0), (12, None))]
    for count, kept in {2: [0, 4], 3: [0, 8], 5: [0, 9, 12]}.items():
        file.write_text("".join(lines[:count]))
        assert [record["envstep"] for record in seen.read()] == kept
    file.write_text(lines[0])
    assert [record["envstep"] for record in seen.read()] == [0]
