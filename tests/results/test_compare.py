from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ding_lite.results.compare import Comparison, compare_groups, describe_columns, render
from ding_lite.results.groups import group_runs
from ding_lite.results.run import find_runs
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_run

pytest.importorskip("scipy")
LAST = ("0", "of", "3", "never", "never", "-")


def write_two_groups(path: Path) -> None:
    for seed in range(3):
        write_run(path / f"one{seed}", seed, [10.0, 100.0 + seed, 90.0 + seed])
        write_run(path / f"three{seed}", seed, [10.0, 50.0 + 100 * seed, 200.0], "policy.nstep=3")


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    write_two_groups(tmp_path)
    return compare_groups(group_runs(find_runs([tmp_path])), threshold=150)


def test_returns_crossings_and_the_probability_of_being_better(comparison: Comparison) -> None:
    one, three = comparison.rows
    assert (one.group.name, one.best.value, one.last.value, one.better) == ("dqn, nstep=1", 101.0, 91.0, None)
    assert (one.last.low, one.last.high) == (90.0, 92.0)
    assert (one.reached, one.steps, one.seconds) == (0, float("inf"), float("inf"))
    # 50, 150 and 250 after 100 env steps and 10 s, 200 after 200: the crossings are 200, 100 and 100
    assert (three.reached, three.steps, three.seconds) == (3, 100, 10)
    assert three.better is not None
    assert (three.better.value, three.better.high) == (1.0, 1.0)
    assert three.best.value == pytest.approx((200 + 200 + 250) / 3)


def test_the_text_names_groups_differences_and_meanings(comparison: Comparison) -> None:
    lines = render(comparison, "text", 200).splitlines()
    assert lines[0] == "CartPole-v0"
    assert lines[2].split("  ")[0] == "group"
    assert lines[3].split() == [*("dqn,", "nstep=1", "3", "101", "[100,", "102]", "91", "[90,", "92]"), *LAST]
    assert "policy.nstep  1      dqn, nstep=1" in lines
    assert "              3      dqn, nstep=3" in lines
    words = describe_columns(comparison)
    assert "Intervals of 3 runs are too short: they contain the truth in 75 % of all cases." in words
    assert "than that of one of 'dqn, nstep=1'" in words


def test_csv_has_plain_numbers_and_a_column_for_each_difference(comparison: Comparison) -> None:
    first, second = csv.DictReader(io.StringIO(render(comparison, "csv", 80)))
    assert (first["group"], first["runs"], first["last_return"], first["last_low"]) == (
        "dqn, nstep=1",
        "3",
        "91.0",
        "90.0",
    )
    assert (first["steps_to_threshold"], first["p_better"], first["policy.nstep"]) == ("", "", "1")
    assert (second["steps_to_threshold"], second["p_better"], second["policy.nstep"]) == ("100.0", "1.0", "3")
    assert len(second["directories"].split()) == 3


def test_the_threshold_is_the_stop_value_unless_it_is_given_or_differs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0, [10.0, 200.0])
    (row,) = compare_groups(group_runs(find_runs([tmp_path]))).rows
    assert (row.threshold, row.reached) == (195, 1)  # of the CartPole config
    assert describe_columns(compare_groups(group_runs(find_runs([tmp_path])))).startswith("Each row is a single run")
    write_run(tmp_path / "b", 0, [10.0, 200.0], "env.stop_value=100")
    comparison = compare_groups(group_runs(find_runs([tmp_path])))
    assert comparison.rows[0].threshold is None
    assert "reached" not in render(comparison, "text", 80)


def test_a_threshold_that_half_of_the_runs_reach_is_said_to_have_no_median(tmp_path: Path) -> None:
    for seed, last in enumerate((100.0, 200.0)):
        write_run(tmp_path / f"run{seed}", seed, [10.0, last])
    comparison = compare_groups(group_runs(find_runs([tmp_path])), threshold=150)
    (row,) = comparison.rows
    assert (row.reached, row.steps) == (1, float("inf"))
    assert "reached the threshold; 'never' means that half of them or more did not reach it." in describe_columns(
        comparison
    )
    assert "never" not in describe_columns(compare_groups(group_runs(find_runs([tmp_path])), threshold=50))


def test_the_last_return_may_be_the_mean_of_several_evaluations(tmp_path: Path) -> None:
    write_two_groups(tmp_path)
    groups = group_runs(find_runs([tmp_path]))
    comparison = compare_groups(groups, last=2)
    # the runs' last two: 100 + s and 90 + s; 50 + 100 s and 200. The means over seeds s = 0, 1, 2 are 96 and 175.
    assert [row.last.value for row in comparison.rows] == [96.0, 175.0]
    assert "last 2" in render(comparison, "text", 200)
    assert "the mean of its last 2 evaluations" in describe_columns(comparison)
    # a mean over more evaluations than a run has is that of all: (10 + 100 + s + 90 + s) / 3
    assert compare_groups(groups, last=99).rows[0].last.value == pytest.approx(202 / 3)


def test_a_threshold_is_a_number() -> None:
    with pytest.raises(UserError, match="--threshold: expected a return to reach, got nan"):
        compare_groups([], threshold=float("nan"))


def test_runs_without_an_evaluation_cannot_be_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0, [])
    with pytest.raises(UserError, match="has an evaluation yet: there is nothing to compare"):
        compare_groups(group_runs(find_runs([tmp_path])))


def test_of_two_algorithms_only_keys_that_both_have_are_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "dqn", 0, [10.0, 190.0], limit=10**10)
    write_run(tmp_path / "rainbow", 0, [10.0, 190.0], "policy.type=rainbow", "policy.model.v_max=200.0")
    lines = render(compare_groups(group_runs(find_runs([tmp_path]))), "text", 120).splitlines()
    keys = [line.split()[0] for line in lines if line.startswith(("policy.", "max_"))]
    assert {"policy.type", "max_env_step"} <= set(keys)
    assert "policy.model.v_max" not in keys
    assert any(line.split() == ["None", "dqn"] or line.split()[1:] == ["None", "dqn"] for line in lines)
