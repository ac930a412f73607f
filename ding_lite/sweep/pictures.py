"""Draws what a sweep has found: the scores of its trials during their runs, and Optuna's pictures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ding_lite.results.extras import load_extra
from ding_lite.results.groups import shorten
from ding_lite.results.plot import STYLE, X_LABELS
from ding_lite.results.run import AXES
from ding_lite.sweep.scores import Marks, find_marks
from ding_lite.sweep.study import SharedStudy
from ding_lite.utils.registry import UserError

CURVES = "curves.png"
PICTURES = {  # Optuna's functions, and the numbers of complete trials and of keys that they need
    "history.png": ("plot_optimization_history", 1, 1),
    "slices.png": ("plot_slice", 2, 1),
    "importances.png": ("plot_param_importances", 2, 2),
    "parallel_coordinates.png": ("plot_parallel_coordinate", 2, 2),
}
LOOKS: dict[str, dict[str, Any]] = {  # of a trial's curve, by how it ended
    "pruned": {"color": "#D55E00", "linestyle": (0, (1, 1)), "linewidth": 0.8},
    "complete": {"color": "#56B4E9", "linewidth": 0.8},
    "best": {"color": "#000000", "linewidth": 1.6},
}
SLICE = 2.6  # inches of a key's panel


def draw_pictures(study: SharedStudy, folder: Path, limits: Mapping[str, int]) -> list[str]:
    """Draw those pictures that have enough trials. Return the names of the files; without matplotlib there are none.

    Args:
        study: the study.
        folder: the sweep's directory.
        limits: limits of the runs, by their names in a saved config.
    """
    with suppress(UserError):
        load_extra("matplotlib").use("Agg")
        figures, plots = load_extra("matplotlib.pyplot"), load_extra("optuna.visualization.matplotlib", "sweep")
        trials, drawn = study.trials("COMPLETE", "PRUNED"), []
        complete = [trial for trial in trials if trial.value is not None and trial.state.name == "COMPLETE"]
        if complete:
            with figures.rc_context(STYLE):
                _draw_curves(figures, trials, find_marks(limits, "best")).savefig(folder / CURVES, dpi=200)
            drawn.append(CURVES)
        for name, (function, enough, keys) in PICTURES.items():
            if len(complete) < enough or len(complete[0].params) < keys:
                continue
            with warnings.catch_warnings(), suppress(ValueError, RuntimeError, ImportError):  # too few trials for it
                warnings.simplefilter("ignore")
                axes = getattr(plots, function)(_with_short_keys(study), target_name="score")
                figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
                _make_room(figure, name)
                figure.savefig(folder / name, dpi=150, bbox_inches="tight")
                drawn.append(name)
        figures.close("all")
        return drawn
    return []


def _draw_curves(figures: Any, trials: list[Any], marks: Marks) -> Any:
    """Draw the score of each trial so far, over the env steps or iterations of all its runs, or over evaluations."""
    figure, axes = figures.subplots(figsize=(5, 3), layout="constrained")
    best = max((trial for trial in trials if trial.state.name == "COMPLETE"), key=lambda trial: trial.value)
    for trial in trials:
        steps = sorted(trial.intermediate_values)
        at = [marks.place(step) for step in steps] if marks.limit else range(1, len(steps) + 1)
        kind = "best" if trial.number == best.number else trial.state.name.lower()
        label = f"best: trial {best.number}" if kind == "best" else kind
        order = list(LOOKS).index(kind) + 2
        values = [trial.intermediate_values[step] for step in steps]
        axes.plot(at, values, **LOOKS[kind], marker=".", zorder=order, label=label)
    name = next(name for name, key in AXES.items() if key == marks.axis)
    axes.set(xlabel=X_LABELS[name] if marks.limit else "evaluations", ylabel="score so far")
    axes.xaxis.set_major_formatter(load_extra("matplotlib.ticker").EngFormatter(sep=""))
    axes.grid(alpha=0.3, linewidth=0.5)
    lines = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # one of each label
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), frameon=False)
    return figure


def _with_short_keys(study: SharedStudy) -> Any:
    """Return a copy of a study, in memory, whose keys have names that fit under a panel."""
    optuna = load_extra("optuna", "sweep")
    keys = list(study.trials("COMPLETE")[0].params)
    names = dict(zip(keys, shorten(keys), strict=True))
    copy = optuna.create_study(direction="maximize")
    for trial in study.study.get_trials(deepcopy=False):  # all of them, which keeps their numbers
        copy.add_trial(
            optuna.trial.create_trial(
                state=trial.state if trial.state.is_finished() else optuna.trial.TrialState.FAIL,
                value=trial.value,
                params={names[key]: value for key, value in trial.params.items()},
                distributions={names[key]: kind for key, kind in trial.distributions.items()},
            )
        )
    return copy


def _make_room(figure: Any, name: str) -> None:
    """Make panels wide enough for their names, and leave out numbers that would overlap."""
    ticker = load_extra("matplotlib.ticker")
    if name == "slices.png":
        figure.set_size_inches(SLICE * max(len(figure.axes) - 1, 2), 4)
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            places = np.geomspace(low, high, 7)[[1, 5]]  # there is room for two
            axis.set_major_locator(ticker.FixedLocator([float(f"{place:.0e}") for place in places]))
            axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            axis.set_minor_formatter(ticker.NullFormatter())
        elif name == "slices.png" and isinstance(axis.get_major_locator(), ticker.MaxNLocator):
            axis.set_major_locator(ticker.MaxNLocator(3))  # numbers such as 0.925 leave room for four
