"""Computes learning curves, and draws them so that they remain distinguishable in grey, as wide as a column.

A picture has a panel for each environment and figure, one below the other, and a line for each group: the average of
its runs, with a band for the 95 % interval. Lines differ in colour, dashes and marker, and a group looks the same in
all panels; markers stand at records. All panels of an environment have the same horizontal axis. If there are more than
`MOST_LINES` groups, they are divided into parts, each with its own panels and legend.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ding_lite.results.compare import Scores
from ding_lite.results.groups import Group
from ding_lite.results.run import RETURN, Floats, Run
from ding_lite.results.statistics import average, intervals, performance_profile, stratified_intervals
from ding_lite.results.table import fold_text
from ding_lite.utils.registry import UserError, load_extra

FORMATS = (".png", ".svg", ".pdf")
UNDATED: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}  # runs determine the file
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito, without yellow
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
MARKERS = "os^DvPX*<>"
X_LABELS = {"env_step": "env steps", "iteration": "learner iterations", "seconds": "seconds of training"}
Y_LABELS = {RETURN: "evaluation return", "collect/return_mean": "return of collected episodes"}
STYLE = {
    "font.size": 8,
    "legend.fontsize": 7,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.hashsalt": "ding_lite",
    "text.parse_math": False,  # a name may contain dollars
}
MOST_LINES = 7  # lines in a panel: as many as there are colours
Panel = tuple[str, str, list[tuple[Group, "Curve"]]]  # environment, figure, lines
CHARACTER = 4.0  # points of a character of the legend, on average
TITLE_CHARACTER = 5.2
HANDLE = 36.0  # points of a line in the legend, with the space around it
MOST_POINTS = 100  # largest number of points of an average
SHORTENED = 0.9  # a run shorter than this share of the longest is worth a note


@dataclass(frozen=True)
class PlotOptions:
    """What to draw and how."""

    metrics: tuple[str, ...] = (RETURN,)  # figures, one panel each
    x: str = "env_step"  # a key of `run.AXES`
    average: str = "mean"  # a word of `statistics.AVERAGES`
    window: int = 1  # records in the moving mean of each run
    hold: bool = False  # a run that reached its stop_value keeps its last value
    each: bool = False  # draw every run as a thin line too
    width: float = 3.5  # inches; a column of a paper has 3.3 to 3.5
    title: str = ""  # line above the picture


def render_plot(groups: Sequence[Group], kind: str, options: PlotOptions, names: Sequence[str] = ()) -> bytes:
    """Return a picture of groups.

    `kind` is `png`, `svg` or `pdf`. `names` are those of all groups of several pictures, so that each looks the same in
    all of them; empty: those of `groups`.
    """
    matplotlib, figures = load_extra("matplotlib", "plot"), load_extra("matplotlib.figure", "plot")
    parts = [panels for part in divide_groups(groups) if (panels := _panels(part, options))]
    if not parts:
        raise UserError(f"There is nothing to draw: no run has recorded {' or '.join(options.metrics)} yet.")
    with matplotlib.rc_context(STYLE):
        heights = [0.62 * options.width * len(panels) + 0.16 * _legend_rows(panels, options) for panels in parts]
        figure = figures.Figure((options.width, sum(heights) + 0.25), dpi=300, layout="constrained")
        places = [figure] if len(parts) == 1 else figure.subfigures(len(parts), height_ratios=heights)
        looks = {name: _line_style(number) for number, name in enumerate(names or _names(groups))}
        drawn = [(panel, own) for place, panels in zip(places, parts, strict=True)
                 for panel, own in zip(panels, _draw_part(place, panels, options, looks), strict=True)]  # fmt: skip
        for axis, alike in (("x", 1), ("y", 2)):  # panels of an environment, and of an environment and figure
            for same in {panel[:alike] for panel, _ in drawn}:
                _align([own for panel, own in drawn if panel[:alike] == same], axis)
        figure.suptitle(fold_text(options.title, int(72 * options.width / TITLE_CHARACTER)) or None, fontsize=9)
        return _save(figure, kind)


def render_profiles(scores: Scores, kind: str, width: float = 3.5) -> bytes:
    """Return a picture of performance profiles: the share of runs whose score exceeds each score, with 95 % bands."""
    matplotlib, figures = load_extra("matplotlib", "plot"), load_extra("matplotlib.figure", "plot")
    runs = {name: np.concatenate(tasks) for name, tasks in scores.items()}
    x = np.linspace(min(0.0, *map(np.min, runs.values())), max(1.0, *map(np.max, runs.values())), 201)
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure((width, 0.62 * width + 0.16 * len(scores) + 0.25), dpi=300, layout="constrained")
        axes = figure.subplots()
        looks = {name: _line_style(number) for number, name in enumerate(scores)}
        for name, tasks in scores.items():
            low, high = stratified_intervals(tasks, lambda drawn: performance_profile(drawn, x))
            _draw(axes, Curve(x, performance_profile(runs[name], x), low, high, ()), looks[name], each=False)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.set_xlabel("normalised score")
        axes.set_ylabel("share of runs above it")
        _add_legend(figure, looks, columns=1)
        return _save(figure, kind)


def _save(figure: Any, kind: str) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, metadata=UNDATED[kind])
    return picture.getvalue()


def divide_groups(groups: Sequence[Group]) -> list[list[Group]]:
    """Return the parts in which groups are drawn: each has lines of at most `MOST_LINES` names."""
    names = _names(groups)
    number = max(-(-len(names) // MOST_LINES), 1)
    size = max(-(-len(names) // number), 1)
    shares = [names[begin : begin + size] for begin in range(0, len(names), size)]
    return [[group for group in groups if group.name in share] for share in shares]


def _names(groups: Sequence[Group]) -> list[str]:
    """Return the names of groups; groups of several environments may share them, and then look the same."""
    return list(dict.fromkeys(group.name for group in groups))


def _draw_part(place: Any, panels: Sequence[Panel], options: PlotOptions, looks: Mapping[str, Any]) -> list[Any]:
    """Draw panels, and a legend below them, into a figure or a part of one; return their axes."""
    names = _labels(panels, options)
    column = list(place.subplots(len(panels), squeeze=False)[:, 0])
    envs = [env for env, _, _ in panels]
    for number, (axes, (env, metric, lines)) in enumerate(zip(column, panels, strict=True)):
        for group, curve in lines:
            _draw(axes, curve, looks[group.name], options.each)
        axes.set(ylabel=Y_LABELS.get(metric, metric), title="" if env in envs[:number] else env)
        axes.xaxis.set_major_formatter(load_extra("matplotlib.ticker", "plot").EngFormatter(sep=""))
        axes.tick_params(labelbottom=env not in envs[number + 1 :])
        axes.grid(alpha=0.3, linewidth=0.5)
    column[-1].set_xlabel(X_LABELS[options.x])
    _add_legend(place, {label: looks[name] for name, label in names.items()}, _legend_columns(names.values(), options))
    return column


def _align(panels: Sequence[Any], axis: str) -> None:
    """Give panels the same scale on an axis, so that their lines can be compared."""
    low, high = zip(*(getattr(axes, f"get_{axis}lim")() for axes in panels), strict=True)
    for axes in panels if len(panels) > 1 else ():
        getattr(axes, f"set_{axis}lim")(min(low), max(high))


def _panels(groups: Sequence[Group], options: PlotOptions) -> list[Panel]:
    """Return environment, figure and lines of each panel that has lines."""
    panels = []
    for env in dict.fromkeys(group.env for group in groups):
        inside = [group for group in groups if group.env == env]
        for metric in options.metrics:
            lines = [(group, curve) for group in inside if (curve := draw_curve(group, metric, options))]
            panels += [(env, metric, lines)] if lines else []
    return panels


def _labels(panels: Sequence[Panel], options: PlotOptions) -> dict[str, str]:
    """Return the text of the legend for each name of a group, with the number of its runs, in lines that fit."""
    counts: dict[str, list[int]] = {}
    for group, curve in (line for _, _, lines in panels for line in lines):
        counts.setdefault(group.name, []).append(curve.count)
    ranges = {name: sorted({min(some), max(some)}) for name, some in counts.items()}
    width = max(int((72 * options.width - HANDLE) / CHARACTER), 1)
    return {name: fold_text(f"{name} ({'-'.join(map(str, numbers))})", width) for name, numbers in ranges.items()}


def _draw(axes: Any, curve: Curve, style: Mapping[str, Any], each: bool) -> None:
    for x, y in curve.each if each and curve.count > 1 else ():
        axes.plot(x, y, color=style["color"], linewidth=0.4, alpha=0.6)
    axes.fill_between(curve.x, curve.low, curve.high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(curve.x, curve.y, **style)


def _line_style(number: int) -> dict[str, Any]:
    return {
        "color": COLORS[number % len(COLORS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markevery": (0.02 * (number % 5), 0.14),  # first marker and spacing, as shares of the panel's diagonal
        "markerfacecolor": "white" if number % 2 else COLORS[number % len(COLORS)],
    }


def _legend_columns(labels: Collection[str], options: PlotOptions) -> int:
    longest = max(len(line) for label in labels for line in label.splitlines())
    return max(int(72 * options.width / (CHARACTER * longest + HANDLE)), 1)


def _legend_rows(panels: Sequence[Panel], options: PlotOptions) -> int:
    labels = _labels(panels, options).values()
    return -(-sum(len(label.splitlines()) for label in labels) // _legend_columns(labels, options))


def _add_legend(figure: Any, looks: Mapping[str, Any], columns: int) -> None:
    """Put a legend below the panels, where it hides nothing; a line has the same style in all of them."""
    lines = load_extra("matplotlib.lines", "plot")
    handles = [lines.Line2D([], [], label="name", **style) for style in looks.values()]
    columns = min(columns, len(handles))
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=3, frameon=False)
    for text, label in zip(legend.get_texts(), looks, strict=True):
        text.set_text(label)  # as a label, a name with an underscore before it would be left out


@dataclass(frozen=True)
class Curve:
    """The average of a figure over runs."""

    x: Floats  # env steps, iterations or seconds at which at least one run has a record
    y: Floats  # the average
    low: Floats  # lower end of its interval; NaN for a single run
    high: Floats  # upper end
    each: tuple[tuple[Floats, Floats], ...]  # x and y of every single run, over its whole length

    @property
    def count(self) -> int:
        return len(self.each)


def draw_curve(group: Group, key: str, options: PlotOptions) -> Curve | None:
    """Return the curve of a figure of a group; None if none of its runs has the figure.

    The average is computed where a run has a record, at no more than `MOST_POINTS` of these places, and the values of
    the other runs are interpolated there. It is drawn only where all runs have a value, because it would jump where one
    begins or ends.
    """
    x, kind = options.x, options.average
    columns = {run: _column(run, key, x, options.window) for run in group.runs}
    columns = {run: column for run, column in columns.items() if len(column[0])}
    each = tuple(columns.values())
    if not each:
        return None
    if len(each) == 1:
        nan = np.full(len(each[0][0]), np.nan)
        return Curve(*each[0], nan, nan, each)
    ends = _ends({run: at[-1] for run, (at, _) in columns.items()}, options.hold).values()
    begin, end = max(at[0] for at, _ in each), min(ends)
    if begin > end:
        raise UserError(
            f"The runs of '{group.name}' have no {x} in common at which '{key}' is known: draw them one by one with "
            "--by run."
        )
    places = np.unique(np.concatenate([at for at, _ in each]))
    places = places[(places >= begin) & (places <= end)]
    grid = places[np.linspace(0, len(places) - 1, min(len(places), MOST_POINTS)).round().astype(int)]
    values_RP = np.array([np.interp(grid, at, values) for at, values in each])  # keeps the last value after the end
    low, high = intervals(values_RP, kind)
    return Curve(grid, average(values_RP, kind, 0), low, high, each)


def describe_picture(groups: Sequence[Group], options: PlotOptions) -> list[str]:
    """Return a line for each group whose average of the first figure ends long before its longest run.

    Also one about the parts of the picture, if it has several.
    """
    key, x, number = options.metrics[0], options.x, len(divide_groups(groups))
    lines = []
    for group in groups:
        ends = _ends({run: float(at[-1]) for run in group.runs if len(at := run.column(key, x)[0])}, options.hold)
        first, last = min(ends.values(), default=0.0), max(ends.values(), default=0.0)
        if first < SHORTENED * last:
            name = next(run.name for run, end in ends.items() if end == first)
            lines.append(
                f"The average of '{group.name}' ends with its shortest run, '{name}': {x} {first:,.0f} of {last:,.0f}."
            )
    parts = f"{len(_names(groups))} lines are too many for one panel: they are drawn in {number} parts of equal scales."
    return lines + [parts] * (number > 1)


def _ends(ends: Mapping[Run, float], hold: bool) -> dict[Run, float]:
    """Return up to which x each run has values, if those that reached their stop_value may keep the last one."""
    last = max(ends.values(), default=0.0)
    return {run: last if hold and run.ending == "stop_value" else end for run, end in ends.items()}


def _column(run: Run, key: str, x: str, window: int) -> tuple[Floats, Floats]:
    """Return a run's column with increasing x: of several records at the same x the last one counts."""
    at, values = run.column(key, x)
    if window > 1:
        sums = np.cumsum(np.concatenate([[0.0], values]))
        ends = np.arange(1, len(values) + 1)
        begins = np.maximum(ends - window, 0)
        values = (sums[ends] - sums[begins]) / (ends - begins)
    if len(at) > 1 and x == "env_step" and at[-1] == 0:
        raise UserError(f"'{run.path}' plays no environment: use --x iteration or --x seconds.")
    _, last = np.unique(at[::-1], return_index=True)
    return at[::-1][last], values[::-1][last]
