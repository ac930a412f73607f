"""What a sweep leaves: a table of its trials, the best config, and pictures."""

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
WIDTH, SHOWN, DIGITS = 80, 20, 4  # the table's characters in a line, trials, and significant digits of a value
ENDINGS = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
PICTURES = ("optimization_history", "slice", "param_importances", "parallel_coordinate")  # of Optuna
PANEL = 5  # inches: the width of a panel of slices


def write_outcome(study: SharedStudy, folder: Path, compiles: Callable[..., Any], limits: Mapping[str, int]) -> bool:
    """Print the trials, write table, best config and pictures into `folder`, and return whether there is a best trial.

    `compiles` compiles the config with values for some keys, and words `key=value`; `limits` are those of each run.
    """
    trials, complete = study.count(*ENDINGS), study.count(TrialState.COMPLETE)
    if trials:
        table = tabulate(trials)
        print(Table(table.header, table.rows[:SHOWN], table.right).text(WIDTH))
    if len(trials) > SHOWN:
        print(f"... and {len(trials) - SHOWN} more, see {folder / TABLE}")
    if left := len(study.count(*UNFINISHED)):
        print(f"{'1 trial has' if left == 1 else f'{left} trials have'} not ended: repeat the command to continue.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TABLE).write_text(tabulate(trials, whole=True).csv() + "\n", encoding="utf-8")
    if complete:
        best = study.best_trial
        save_config(compiles(best.params, f"exp_name={folder.name}_best"), folder / BEST, "", **limits)
        print(f"best: trial {best.number} with {show_number(best.value)}, {folder / BEST}")
    else:
        print("No trial is complete, so there is no best config.")
    with suppress(UserError):  # matplotlib is not installed
        if len(complete) > 1 and (pictures := draw_pictures(study, folder)):
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


def draw_pictures(study: SharedStudy, folder: Path) -> list[str]:
    """Draw Optuna's pictures of the complete trials, and return the names of the files."""
    load_extra("matplotlib", "plot").use("Agg")
    figures, plots = load_extra("matplotlib.pyplot", "plot"), load_extra("optuna.visualization.matplotlib", "sweep")
    keys, drawn = list(study.best_trial.params), list[str]()
    short = dict(zip(keys, shorten(keys), strict=True))  # names that fit under a panel
    copy = optuna.create_study(direction="maximize")
    for trial in study.trials:  # all of them, which keeps their numbers
        trial.params = {short[key]: value for key, value in trial.params.items()}
        trial.distributions = {short[key]: kind for key, kind in trial.distributions.items()}
        copy.add_trial(trial)
    for name in PICTURES:
        with warnings.catch_warnings(), suppress(ValueError, RuntimeError, ImportError):  # too few trials for it
            warnings.simplefilter("ignore")
            getattr(plots, f"plot_{name}")(copy, target_name="score")
            if name == "slice":
                figures.gcf().set_size_inches(PANEL * max(len(keys), 2), 4)
                for panel in figures.gcf().axes:  # or the numbers at logarithmic axes overlap
                    panel.tick_params("x", which="both", rotation=90)
            figures.savefig(folder / f"{name}.png", dpi=150, bbox_inches="tight")
            drawn.append(f"{name}.png")
    figures.close("all")
    return drawn
