from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ding_lite.results.curves import draw_curve, find_shortened
from ding_lite.results.groups import Group
from ding_lite.results.run import RETURN, read_run
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_run


def group(*paths: Path) -> Group:
    return Group("dqn", "CartPole-v0", tuple(map(read_run, paths)))


def test_a_single_run_is_drawn_as_it_is(tmp_path: Path) -> None:
    curve = draw_curve(group(write_run(tmp_path / "run")), RETURN)
    assert curve is not None
    assert curve.x.tolist() == [0, 100, 200]
    assert curve.y.tolist() == [10.0, 60.0, 190.0]
    assert np.isnan(curve.low).all()


def test_an_average_is_drawn_where_all_runs_have_values(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    late = write_run(tmp_path / "a", 0, [None, 0.0, 100.0])
    long = write_run(tmp_path / "b", 1, [10.0, 20.0, 40.0, 80.0])
    curve = draw_curve(group(late, long), RETURN)
    assert curve is not None
    assert (curve.x[0], curve.x[-1]) == (100, 200)
    assert curve.y.tolist() == [10, 70]  # (0 + 20) / 2 and (100 + 40) / 2
    assert (curve.high - curve.low).tolist() == [20, 60]  # of two runs: their range
    assert [len(x) for x, _ in curve.each] == [2, 4]


def test_an_average_has_its_points_where_runs_were_recorded(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    runs = [write_run(tmp_path / f"{seed}", seed, [float(k) for k in range(4)]) for seed in range(2)]
    file = runs[1] / "metrics.jsonl"
    for before, now in ((300, 290), (200, 190), (100, 90)):  # evaluations come at the end of an episode
        file.write_text(file.read_text().replace(f'"envstep": {before}', f'"envstep": {now}'))
    curve = draw_curve(group(*runs), RETURN)
    assert curve is not None
    assert curve.x.tolist() == [0, 90, 100, 190, 200, 290]
    long = [write_run(tmp_path / f"long{seed}", seed, [float(k) for k in range(1000)]) for seed in range(2)]
    curve = draw_curve(group(*long), RETURN)
    assert curve is not None
    assert (len(curve.x), curve.x[0], curve.x[-1]) == (100, 0, 99_900)
    assert set(curve.x) <= {100 * k for k in range(1000)}


def test_a_run_that_was_solved_may_keep_its_last_value(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    solved = write_run(tmp_path / "a", 0, [0.0, 200.0], ending="stop_value")
    longer = write_run(tmp_path / "b", 1, [0.0, 0.0, 100.0])
    curve = draw_curve(group(solved, longer), RETURN, hold=True)
    assert curve is not None
    assert (curve.x[-1], curve.y[-1]) == (200, 150.0)
    assert find_shortened([group(solved, longer)], RETURN, hold=True) == []
    assert find_shortened([group(solved, longer)], RETURN) == [
        "The average of 'dqn' ends with its shortest run, 'a': env_step 100 of 200."
    ]


def test_of_records_at_the_same_step_the_last_one_counts_and_a_window_smooths(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", 0, [1.0, 2.0, 6.0])
    curve = draw_curve(group(path), RETURN, window=2)
    assert curve is not None
    assert curve.y.tolist() == [1.0, 1.5, 4.0]  # means of (1), (1, 2), (2, 6)
    lines = (path / "metrics.jsonl").read_text().replace('"envstep": 200', '"envstep": 100')
    (path / "metrics.jsonl").write_text(lines)
    curve = draw_curve(group(path), RETURN)
    assert curve is not None
    assert (curve.x.tolist(), curve.y.tolist()) == ([0, 100], [1.0, 6.0])


def test_runs_without_a_figure_or_a_common_axis(tmp_path: Path) -> None:
    early, late = write_run(tmp_path / "a", 0, [1.0, 2.0]), write_run(tmp_path / "b", 1, [None, None, 3.0, 4.0])
    assert draw_curve(group(early), "train/total_loss") is None
    with pytest.raises(UserError, match="have no env_step in common"):
        draw_curve(group(early, late), RETURN)
    metrics = early / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"envstep": 100', '"envstep": 0'))
    with pytest.raises(UserError, match="plays no environment: use --x iteration"):
        draw_curve(group(early), RETURN)
