"""Writes what a sweep has found: a table of its trials, the best config, and pictures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ding_lite.config import save_config
from ding_lite.results.groups import short_value, shorten
from ding_lite.results.table import Table, show_number
from ding_lite.sweep.study import ERROR, RUNS, UNFINISHED, SharedStudy
from ding_lite.utils.registry import UserError, load_extra

TABLE, BEST = "trials.csv", "best_config.py"
WIDTH, SHOWN, DIGITS = 80, 20, 4  # of the table: characters of a line, trials, significant digits of a value
ENDINGS = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
PICTURES = {  # Optuna's functions, and the numbers of complete trials and of keys that they need
    "curves.png": ("plot_intermediate_values", 1, 1),
    "history.png": ("plot_optimization_history", 1, 1),
    "slices.png": ("plot_slice", 2, 1),
    "importances.png": ("plot_param_importances", 2, 2),
    "parallel_coordinates.png": ("plot_parallel_coordinate", 2, 2),
}
PANEL = 5  # inches: the width of a panel of slices


def write_outcome(
    study: SharedStudy, folder: Path, unit: str, compiles: Callable[..., Any], limits: dict[str, int]
) -> bool:
    """Print the trials, write table, best config and pictures into `folder`, and return whether there is a best trial.

    Args:
        study: the study.
        folder: the sweep's directory.
        unit: what the marks are counted in at which its runs are compared.
        compiles: compiles the config with values for some keys, and words `key=value`.
        limits: limits of the runs, by their names in a saved config.
    """
    trials, complete = study.count(*ENDINGS), study.count(TrialState.COMPLETE)
    if trials:
        table = tabulate(trials)
        print(Table(table.header, table.rows[:SHOWN], table.right).text(WIDTH))
    if len(trials) > SHOWN:
        print(f"... and {len(trials) - SHOWN} more, see {folder / TABLE}")
    if left := len(study.count(*UNFINISHED)):
        print(f"{'1 trial has' if left == 1 else f'{left} trials have'} not ended: repeat the command to continue.")
    try:
        (folder / TABLE).write_text(tabulate(trials, whole=True).csv() + "\n", encoding="utf-8")
        if complete:
            best = study.best_trial
            save_config(compiles(best.params, f"exp_name={folder.name}_best"), folder / BEST, "", **limits)
            print(f"best: trial {best.number} with {show_number(best.value)}, {folder / BEST}")
        else:
            print("No trial is complete, so there is no best config.")
    except OSError as error:
        raise UserError(f"Cannot write into '{folder}': {error.strerror}.") from None
    with suppress(UserError):  # matplotlib is not installed
        if pictures := draw_pictures(study, folder, unit):
            print(f"pictures: {', '.join(pictures)} in {folder}")
    return bool(complete)


def tabulate(trials: Sequence[FrozenTrial], whole: bool = False) -> Table:
    """Return a table of trials, the best one first; `whole`, with directories, and numbers and keys in full."""
    keys, rows, order = list(trials[0].params) if trials else [], list[list[str]](), list(ENDINGS)
    for trial in sorted(trials, key=lambda trial: (order.index(trial.state), -(trial.value or 0.0), trial.number)):
        cells = [str(trial.params[key]) if whole else short_value(trial.params[key], DIGITS) for key in keys]
        score = str(trial.value) if whole and trial.value is not None else show_number(trial.value)
        places = [" ".join(trial.user_attrs.get(RUNS, {}).values()), trial.user_attrs.get(ERROR, "")]
        rows.append([str(trial.number), score, ENDINGS[trial.state], *cells, *(places if whole else [])])
    names = [*keys, "runs", "error"] if whole else shorten(keys)
    return Table(["trial", "score", "ended", *names], rows, frozenset({0, 1, *range(3, 3 + len(keys))}))


def show_values(values: Mapping[str, Any]) -> str:
    """Return values as `key=value` with short keys."""
    names = zip(shorten(list(values)), values.values(), strict=True)
    return ", ".join(f"{name}={short_value(value, DIGITS)}" for name, value in names)


def draw_pictures(study: SharedStudy, folder: Path, unit: str) -> list[str]:
    """Draw those of Optuna's pictures that have enough trials, and return the names of the files."""
    load_extra("matplotlib", "plot").use("Agg")
    figures, plots = load_extra("matplotlib.pyplot", "plot"), load_extra("optuna.visualization.matplotlib", "sweep")
    complete, drawn = study.count(TrialState.COMPLETE), list[str]()
    keys = list(complete[0].params) if complete else []
    copy = _with_short_keys(study, keys, unit) if complete else study
    for name, (function, enough, fewest) in PICTURES.items():
        if len(complete) < enough or len(keys) < fewest:
            continue
        with warnings.catch_warnings(), suppress(ValueError, RuntimeError, ImportError):  # too few trials for it
            warnings.simplefilter("ignore")
            axes = getattr(plots, function)(copy, **({} if name == "curves.png" else {"target_name": "score"}))
            if name == "curves.png":
                axes.set(title="", xlabel=unit, ylabel="score so far")
            if name == "slices.png":
                figures.gcf().set_size_inches(PANEL * max(len(keys), 2), 4)
                for panel in figures.gcf().axes:  # or the numbers at logarithmic axes overlap
                    panel.tick_params("x", which="both", rotation=90)
            figures.savefig(folder / name, dpi=150, bbox_inches="tight")
            drawn.append(name)
    figures.close("all")
    return drawn


def _with_short_keys(study: SharedStudy, keys: Sequence[str], unit: str) -> optuna.Study:
    """Return a copy of a study, in memory, whose keys have names that fit under a panel."""
    copy, names = optuna.create_study(direction="maximize"), dict(zip(keys, shorten(keys), strict=True))
    for trial in study.trials:  # all of them, which keeps their numbers
        trial.params = {names[key]: value for key, value in trial.params.items()}
        trial.distributions = {names[key]: kind for key, kind in trial.distributions.items()}
        if unit == "evaluations":  # without the distance between the runs of a trial
            trial.intermediate_values = dict(enumerate(trial.intermediate_values.values(), 1))
        copy.add_trial(trial)
    return copy
