from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite.results import plot
from ding_lite.results.groups import Group, group_runs
from ding_lite.results.plot import PlotOptions, describe_picture, draw_curve, render_plot
from ding_lite.results.run import RETURN, find_runs, read_run
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_records, write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
import matplotlib.lines
from matplotlib.figure import Figure

lines: Any = matplotlib.lines

BEGINS = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.fixture
def groups(tmp_path: Path) -> list[Group]:
    for seed in range(3):
        write_run(tmp_path / f"dqn{seed}", seed, [10.0, 20.0 + seed, 30.0])
    write_run(tmp_path / "nstep", 0, [10.0, 50.0, 90.0], "policy.nstep=3")
    return group_runs(find_runs([tmp_path]))


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_picture_is_the_same_when_it_is_drawn_twice(kind: str, groups: list[Group]) -> None:
    picture = render_plot(groups, kind, PlotOptions())
    assert picture.startswith(BEGINS[kind])
    assert picture == render_plot(groups, kind, PlotOptions())


def test_every_name_is_drawn_as_it_is(tmp_path: Path, drawn: list[Any]) -> None:
    names = ["_x", "$\\frac{$", "--><script>"]  # matplotlib leaves out the first, and takes the second for a formula
    for name in names:
        write_run(tmp_path / name, 0, [10.0, 20.0])
    svg = render_plot(group_runs(find_runs([tmp_path]), by="run"), "svg", PlotOptions(title=names[1])).decode()
    assert {text.get_text() for text in drawn[0].legends[0].get_texts()} == {f"{name} (1)" for name in names}
    assert "<script>" not in svg


def test_more_groups_than_can_be_told_apart_are_drawn_in_parts_of_equal_scales(tmp_path: Path) -> None:
    for number in range(1, 10):
        write_run(tmp_path / f"run{number}", 0, [0.0, 100.0 * number, 50.0], f"policy.nstep={number}")
    groups = group_runs(find_runs([tmp_path]))
    assert [[group.name for group in part] for part in plot.divide_groups(groups)] == [
        [f"dqn, nstep={number}" for number in numbers] for numbers in (range(1, 6), range(6, 10))
    ]
    assert plot.describe_picture(groups, PlotOptions()) == [
        "9 lines are too many for one panel: they are drawn in 2 parts of equal scales."
    ]
    assert plot.divide_groups(groups[:7]) == [groups[:7]]
    assert plot.describe_picture(groups[:7], PlotOptions()) == []
    svg = render_plot(groups, "svg", PlotOptions(title="Nine groups")).decode()
    assert svg.count("<!-- CartPole-v0 -->") == svg.count("<!-- evaluation return -->") == 2
    assert svg.count("<!-- 800 -->") == 2  # a label of the vertical axis, which the first part alone would not reach


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are written while a test runs."""
    figures: list[Any] = []
    save = Figure.savefig

    def keep(figure: Any, *args: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def test_a_group_has_one_colour_in_all_panels_parts_and_pictures(tmp_path: Path, drawn: list[Any]) -> None:
    """The second environment lacks the first group, and a figure lacks the second one."""
    for name, env, nstep, extra in (("a", "CartPole-v0", 1, {"loss": 1.0}), ("b", "CartPole-v0", 3, {}),
                                    ("c", "CartPole-v1", 3, {"loss": 2.0}), ("d", "CartPole-v1", 5, {})):  # fmt: skip
        path = write_run(tmp_path / name, 0, [], f"env.env_id={env}", f"policy.nstep={nstep}")
        write_records(path, [{"eval/return_mean": float(k), **extra} for k in range(3)])
    groups = group_runs(find_runs([tmp_path]), "policy.nstep")
    names = list(dict.fromkeys(group.name for group in groups))
    assert names == ["nstep=1", "nstep=3", "nstep=5"]
    for part in (groups, groups[2:]):
        render_plot(part, "png", PlotOptions(("eval/return_mean", "loss")), names)
    first, second = ([[line.get_color() for line in axes.lines] for axes in figure.axes] for figure in drawn)
    one, three, five = plot.COLORS[:3]
    assert first == [[one, three], [one], [three, five], [three]]
    assert second == first[2:]


def group(*paths: Path) -> Group:
    return Group("dqn", "CartPole-v0", tuple(map(read_run, paths)))


def test_an_average_is_drawn_where_all_runs_have_values(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    late = write_run(tmp_path / "a", 0, [None, 0.0, 100.0])
    long = write_run(tmp_path / "b", 1, [10.0, 20.0, 40.0, 80.0])
    curve = draw_curve(group(late, long), RETURN, PlotOptions())
    assert curve is not None
    assert (curve.x[0], curve.x[-1]) == (100, 200)
    assert curve.y.tolist() == [10, 70]  # (0 + 20) / 2 and (100 + 40) / 2
    assert (curve.high - curve.low).tolist() == [20, 60]  # of two runs: their range
    assert [len(x) for x, _ in curve.each] == [2, 4]


def test_a_run_that_was_solved_may_keep_its_last_value(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    solved = write_run(tmp_path / "a", 0, [0.0, 200.0], ending="stop_value")
    longer = write_run(tmp_path / "b", 1, [0.0, 0.0, 100.0])
    curve = draw_curve(group(solved, longer), RETURN, PlotOptions(hold=True))
    assert curve is not None
    assert (curve.x[-1], curve.y[-1]) == (200, 150.0)
    assert describe_picture([group(solved, longer)], PlotOptions(hold=True)) == []
    assert describe_picture([group(solved, longer)], PlotOptions()) == [
        "The average of 'dqn' ends with its shortest run, 'a': env_step 100 of 200."
    ]


def test_of_records_at_the_same_step_the_last_one_counts_and_a_window_smooths(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", 0, [1.0, 2.0, 6.0])
    curve = draw_curve(group(path), RETURN, PlotOptions(window=2))
    assert curve is not None
    assert curve.y.tolist() == [1.0, 1.5, 4.0]  # means of (1), (1, 2), (2, 6)
    lines = (path / "metrics.jsonl").read_text().replace('"envstep": 200', '"envstep": 100')
    (path / "metrics.jsonl").write_text(lines)
    curve = draw_curve(group(path), RETURN, PlotOptions())
    assert curve is not None
    assert (curve.x.tolist(), curve.y.tolist()) == ([0, 100], [1.0, 6.0])


def test_runs_without_a_figure_or_a_common_axis(tmp_path: Path) -> None:
    early, late = write_run(tmp_path / "a", 0, [1.0, 2.0]), write_run(tmp_path / "b", 1, [None, None, 3.0, 4.0])
    assert draw_curve(group(early), "train/total_loss", PlotOptions()) is None
    with pytest.raises(UserError, match="have no env_step in common"):
        draw_curve(group(early, late), RETURN, PlotOptions())
    metrics = early / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"envstep": 100', '"envstep": 0'))
    with pytest.raises(UserError, match="plays no environment: use --x iteration"):
        draw_curve(group(early), RETURN, PlotOptions())
