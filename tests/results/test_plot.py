from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ding_lite.results import plot
from ding_lite.results.groups import Group, group_runs
from ding_lite.results.plot import PlotOptions, render_plot, save_plot
from ding_lite.results.run import find_runs
from ding_lite.utils.registry import UserError
from tests.results.helpers import write_records, write_run

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")
import matplotlib.lines
from matplotlib.backends.backend_agg import FigureCanvasAgg
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
def test_a_picture_is_written_in_the_format_of_its_name(kind: str, tmp_path: Path, groups: list[Group]) -> None:
    path = tmp_path / "new" / f"curves.{kind}"
    save_plot(groups, path, PlotOptions())
    assert path.read_bytes().startswith(BEGINS[kind])
    assert path.read_bytes() == render_plot(groups, kind, PlotOptions())  # drawn twice, it is the same


def test_a_picture_is_as_wide_as_asked(groups: list[Group]) -> None:
    svg = render_plot(groups, "svg", PlotOptions(width=3.5)).decode()
    assert 'width="252pt"' in svg  # 72 points an inch
    png = render_plot(groups, "png", PlotOptions(width=2))
    assert int.from_bytes(png[16:20], "big") == 600  # 300 pixels an inch


def test_texts_are_not_smaller_than_seven_points() -> None:
    sizes = [plot.STYLE[key] for key in ("font.size", "legend.fontsize", "axes.titlesize")]
    assert all(isinstance(size, int) and size >= 7 for size in sizes)


def test_lines_differ_without_their_colours() -> None:
    looks = {(str(style["linestyle"]), style["marker"]) for style in map(plot._line_style, range(plot.MOST_LINES))}
    assert len(looks) == plot.MOST_LINES


def test_more_groups_than_can_be_told_apart_are_drawn_in_parts_of_equal_scales(tmp_path: Path) -> None:
    for number in range(1, 10):
        write_run(tmp_path / f"run{number}", 0, [0.0, 100.0 * number, 50.0], f"policy.nstep={number}")
    groups = group_runs(find_runs([tmp_path]))
    assert [[group.name for group in part] for part in plot.divide_groups(groups)] == [
        [f"dqn, nstep={number}" for number in numbers] for numbers in (range(1, 6), range(6, 10))
    ]
    assert plot.describe_parts(groups) == [
        "9 lines are too many for one panel: they are drawn in 2 parts of equal scales."
    ]
    assert plot.divide_groups(groups[:7]) == [groups[:7]]
    assert plot.describe_parts(groups[:7]) == []
    svg = render_plot(groups, "svg", PlotOptions(title="Nine groups")).decode()
    assert svg.count("<!-- CartPole-v0 -->") == svg.count("<!-- evaluation return -->") == 2
    assert svg.count("<!-- 800 -->") == 2  # a label of the vertical axis, which the first part alone would not reach


def test_panels_are_environments_and_figures(tmp_path: Path, groups: list[Group]) -> None:
    write_run(tmp_path / "other", 0, [1.0, 2.0], "env.env_id=CartPole-v1")
    both = group_runs(find_runs([tmp_path]), "algorithm")
    panels = plot._panels(both, PlotOptions(("eval/return_mean", "train/total_loss")))
    assert [(env, metric, len(lines)) for env, metric, lines in panels] == [
        ("CartPole-v0", "eval/return_mean", 1),
        ("CartPole-v1", "eval/return_mean", 1),
    ]
    assert plot._labels(panels, PlotOptions()) == {"dqn": "dqn (1-4)"}
    render_plot(both, "png", PlotOptions(each=True, title="Two environments"))


def test_mistakes_get_one_line(tmp_path: Path, groups: list[Group]) -> None:
    with pytest.raises(UserError, match=r"expected a name that ends in .png, .svg, .pdf"):
        save_plot(groups, tmp_path / "curves.jpg", PlotOptions())
    with pytest.raises(UserError, match="There is nothing to draw"):
        render_plot(groups, "png", PlotOptions(("none",)))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write"):
        save_plot(groups, tmp_path / "file" / "curves.png", PlotOptions())


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


def marked_places(axes: Any, number: int) -> Any:
    """Return x of the markers of a panel's line, as they are drawn."""
    line = axes.lines[number]
    path = line._get_transformed_path().get_transformed_path_and_affine()[0]
    return lines._mark_every_path(line.get_markevery(), path, line.get_transform(), axes).vertices[:, 0]


def test_markers_stand_where_evaluations_are(tmp_path: Path, drawn: list[Any]) -> None:
    for seed in range(3):
        write_run(tmp_path / f"dqn{seed}", seed, [10.0 * k * seed for k in range(12)])
    save_plot(group_runs(find_runs([tmp_path])), tmp_path / "curves.png", PlotOptions())
    (axes,) = drawn[0].axes
    assert axes.lines[0].get_xdata().tolist() == [100 * k for k in range(12)]  # as they were recorded
    places = marked_places(axes, 0)
    assert len(places) >= 3
    assert set(places) <= {100 * k for k in range(12)}


def test_panels_of_an_environment_share_their_horizontal_axis(tmp_path: Path, drawn: list[Any]) -> None:
    for seed, env in enumerate(("CartPole-v0", "CartPole-v1")):
        path = write_run(tmp_path / f"run{seed}", 0, [], f"env.env_id={env}")
        evaluated = [{"eval/return_mean": 1.0 * k, "loss": 1.0} for k in range(3)]
        write_records(path, [*evaluated, *[{"loss": 2.0}] * (2 + 3 * seed)])
    options = PlotOptions(("eval/return_mean", "loss"))
    save_plot(group_runs(find_runs([tmp_path])), tmp_path / "curves.png", options)
    limits = [axes.get_xlim() for axes in drawn[0].axes]
    assert limits[0] == limits[1] != limits[2] == limits[3]
    assert [bool(axes.xaxis.get_tick_params()["labelbottom"]) for axes in drawn[0].axes] == [False, True, False, True]


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


def test_long_names_and_titles_stay_inside_the_picture(tmp_path: Path, drawn: list[Any]) -> None:
    write_run(tmp_path / ("run_with_a_name_of_many_words_" * 4), 0)
    groups = group_runs(find_runs([tmp_path]), "run")
    render_plot(groups, "png", PlotOptions(width=3, title="A title that is longer than the picture is wide " * 2))
    figure = drawn[0]
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    for text in (figure._suptitle, *figure.legends[0].get_texts()):
        box = text.get_window_extent(renderer)
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
