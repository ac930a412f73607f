"""Writes what a sweep has found: a table of its trials, the best config, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ding_lite.config import save_config
from ding_lite.results.groups import short_value, shorten
from ding_lite.results.table import Table, show_number
from ding_lite.sweep.pictures import draw_pictures
from ding_lite.sweep.study import ERROR, RUNS, SharedStudy
from ding_lite.utils.registry import UserError

TABLE, BEST = "trials.csv", "best_config.py"
WIDTH = 80  # characters of a line of the table
DIGITS = 4  # of a value in the table
SHOWN = 20  # trials in the table on the terminal
ENDINGS = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


def write_outcome(study: SharedStudy, folder: Path, compiles: Callable[..., Any], limits: dict[str, int]) -> bool:
    """Print the table of the trials, and write it, the best config and the pictures into the sweep's directory.

    Args:
        study: the study.
        folder: the sweep's directory.
        compiles: compiles the config with values for some keys, and words `key=value`.
        limits: limits of the runs, by their names in a saved config.

    Returns:
        Whether there is a best trial.
    """
    trials, left = study.trials(*ENDINGS), study.trials("RUNNING", "WAITING")
    if trials:
        table = tabulate(trials)
        print(Table(table.header, table.rows[:SHOWN], table.right).text(WIDTH))
    if len(trials) > SHOWN:
        print(f"... and {len(trials) - SHOWN} more, see {folder / TABLE}")
    if left:
        what = "1 trial has" if len(left) == 1 else f"{len(left)} trials have"
        print(f"{what} not ended: repeat the command to continue.")
    complete = study.trials("COMPLETE")
    try:
        (folder / TABLE).write_text(tabulate(trials, whole=True).csv() + "\n", encoding="utf-8")
        if complete:
            best = max(complete, key=lambda trial: trial.value)
            save_config(compiles(best.params, f"exp_name={folder.name}_best"), folder / BEST, "", **limits)
            print(f"best: trial {best.number} with {show_number(best.value)}, {folder / BEST}")
        else:
            print("No trial is complete, so there is no best config.")
    except OSError as error:
        raise UserError(f"Cannot write into '{folder}': {error.strerror}.") from None
    pictures = draw_pictures(study, folder, limits)
    if pictures:
        print(f"pictures: {', '.join(pictures)} in {folder}")
    return bool(complete)


def tabulate(trials: Sequence[Any], whole: bool = False) -> Table:
    """Return a table of trials, the best one first, then those that were pruned and that failed.

    Args:
        trials: the trials, of Optuna.
        whole: whether keys and numbers are written in full, and the directories of the runs too.
    """
    order = list(ENDINGS)

    def rank(trial: Any) -> tuple[int, float, int]:
        return order.index(trial.state.name), -(trial.value if trial.value is not None else 0.0), trial.number

    keys = list(trials[0].params) if trials else []
    names = keys if whole else shorten(keys)
    rows = []
    for trial in sorted(trials, key=rank):
        values = [trial.params[key] for key in keys]
        cells = [str(value) if whole else short_value(value, DIGITS) for value in values]
        score = str(trial.value) if whole and trial.value is not None else show_number(trial.value)
        rows.append([str(trial.number), score, ENDINGS[trial.state.name], *cells])
        if whole:
            rows[-1] += [" ".join(trial.user_attrs.get(RUNS, {}).values()), trial.user_attrs.get(ERROR, "")]
    header = ["trial", "score", "ended", *names, *(["runs", "error"] if whole else [])]
    return Table(header, rows, frozenset({0, 1, *range(3, 3 + len(keys))}))


def show_values(values: Mapping[str, Any]) -> str:
    """Return values as `key=value` with short keys."""
    names = shorten(list(values))
    return ", ".join(f"{name}={short_value(value, DIGITS)}" for name, value in zip(names, values.values(), strict=True))
