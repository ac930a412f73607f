"""Curves of runs, and the curve of their average at the places where they were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ding_lite.results.groups import Group
from ding_lite.results.run import Floats, Run
from ding_lite.results.statistics import average, intervals
from ding_lite.utils.registry import UserError

MOST_POINTS = 100  # largest number of points of an average
SHORTENED = 0.9  # a run shorter than this share of the longest is worth a note


@dataclass(frozen=True)
class Curve:
    """The average of a figure over runs.

    Attributes:
        x: env steps, iterations or seconds at which at least one run has a record.
        y: the average.
        low: lower end of its interval; NaN for a single run.
        high: upper end.
        each: x and y of every single run, over its whole length.
        count: number of runs.
    """

    x: Floats
    y: Floats
    low: Floats
    high: Floats
    each: tuple[tuple[Floats, Floats], ...]

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.each)


def draw_curve(
    group: Group, key: str, x: str = "env_step", kind: str = "mean", window: int = 1, hold: bool = False
) -> Curve | None:
    """Return the curve of a group; None if none of its runs has the figure.

    The average is computed where a run has a record, at no more than `MOST_POINTS` of these places, and the values of
    the other runs are interpolated there. It is drawn only where all runs have a value, because it would jump where one
    begins or ends.

    Args:
        group: the runs; those without the figure are left out.
        key: name of the figure.
        x: a key of `AXES`.
        kind: a word of `AVERAGES`.
        window: number of records in the moving mean of each run.
        hold: a run that reached its stop_value keeps its last value until the end of the longest run.

    Raises:
        UserError: the runs have no x in common.
    """
    columns = [(run, *_column(run, key, x, window)) for run in group.runs]
    columns = [(run, at, values) for run, at, values in columns if len(at)]
    if not columns:
        return None
    each = tuple((at, values) for _, at, values in columns)
    if len(each) == 1:
        nan = np.full(len(each[0][0]), np.nan)
        return Curve(*each[0], nan, nan, each)
    ends = _ends({run: at[-1] for run, at, _ in columns}, hold).values()
    begin, end = max(at[0] for at, _ in each), min(ends)
    if begin > end:
        raise UserError(
            f"The runs of '{group.name}' have no {x} in common at which '{key}' is known: draw them one by one with "
            "--by run."
        )
    places = np.unique(np.concatenate([at for at, _ in each]))
    places = places[(places >= begin) & (places <= end)]
    chosen = np.linspace(0, len(places) - 1, min(len(places), MOST_POINTS)).round().astype(int)
    grid = places[chosen]
    values_RP = np.array([np.interp(grid, at, values) for at, values in each])  # keeps the last value after the end
    return Curve(grid, average(values_RP, kind, 0), *intervals(values_RP, kind), each)


def find_shortened(groups: Sequence[Group], key: str, x: str = "env_step", hold: bool = False) -> list[str]:
    """Return a line for each group whose average ends long before its longest run; arguments as for `draw_curve`."""
    lines = []
    for group in groups:
        ends = _ends({run: float(at[-1]) for run in group.runs if len(at := run.column(key, x)[0])}, hold)
        first, last = min(ends.values(), default=0.0), max(ends.values(), default=0.0)
        if first < SHORTENED * last:
            name = next(run.name for run, end in ends.items() if end == first)
            lines.append(
                f"The average of '{group.name}' ends with its shortest run, '{name}': {x} {first:,.0f} of {last:,.0f}."
            )
    return lines


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
    if len(at) and x == "env_step" and at[-1] == 0 and len(at) > 1:
        raise UserError(f"'{run.path}' plays no environment: use --x iteration or --x seconds.")
    _, last = np.unique(at[::-1], return_index=True)
    return at[::-1][last], values[::-1][last]
