"""Compares groups of runs: returns, how long it took to reach a threshold, which is better, what differs.

Several tasks are compared as Agarwal et al. 2021 (arXiv:2108.13264) recommend: a score is 0 for a random policy's
return and 1 for a reference return, so that scores of all tasks can be averaged.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from ding_lite.results.groups import Group, differing_keys
from ding_lite.results.run import RETURN, Floats, Run
from ding_lite.results.statistics import (
    Estimate,
    average,
    estimate,
    performance_profile,
    probability_of_improvement,
    stratified_estimate,
)
from ding_lite.results.table import Table, as_markdown, fold_text, show_estimate, show_number, show_probability
from ding_lite.utils.registry import UserError, closest

COVERAGE = {2: 50, 3: 75, 4: 87, 5: 91}  # number of runs: how many % of their 95 % intervals contain the truth
NEVER = "never"  # the median of runs of which half or more did not reach the threshold
THRESHOLD = 0.9  # score of the column "above" if none is given
COLUMNS = ("env", "random", "reference")
Scores = Mapping[str, Sequence[Floats]]  # name of a group: for each task, the scores of its runs


@dataclass(frozen=True)
class Row:
    """The figures of a group."""

    group: Group
    best: Estimate  # average return of each run's best evaluation
    last: Estimate  # average, over the runs, of the mean return of each run's last evaluations
    threshold: float | None  # return to reach; None: unknown
    reached: int  # number of runs that reached it
    steps: float  # median env steps until a run first reached it, infinite unless more than half did
    seconds: float  # median seconds of training until then
    # probability that a run's last return exceeds one of the reference group; None for that group itself
    better: Estimate | None


@dataclass(frozen=True)
class Comparison:
    """What is known about groups of runs."""

    rows: tuple[Row, ...]  # the groups, ordered by environment
    against: dict[str, str]  # the name of the reference group of each environment
    average: str  # the average that was used, a word of `statistics.AVERAGES`
    last: int  # the number of last evaluations of which the mean was taken

    def envs(self) -> list[str]:
        return list(dict.fromkeys(row.group.env for row in self.rows))


def compare_groups(
    groups: Sequence[Group],
    threshold: float | None = None,
    against: str | None = None,
    average: str = "mean",
    last: int = 1,
) -> Comparison:
    """Compare the groups of each environment with one of them, by default the first; see `Comparison`.

    Without a `threshold`, the return to reach is the environment's `stop_value`, if all its runs have the same.
    """
    if threshold is not None and not math.isfinite(threshold):
        raise UserError(f"--threshold: expected a return to reach, got {threshold}.")
    if not any(len(run.column(RETURN)[0]) for group in groups for run in group.runs):
        raise UserError("None of these runs has an evaluation yet: there is nothing to compare.")
    rows, references = [], {}
    for env in dict.fromkeys(group.env for group in groups):
        inside = [group for group in groups if group.env == env]
        names = [group.name for group in inside]
        if against is not None and against not in names:
            raise UserError(
                f"--against {against}: {env} has no such group.{closest(against, names)} It has: {_quoted(names)}."
            )
        reference = inside[0] if against is None else inside[names.index(against)]
        references[env] = reference.name
        limit = _find_stop_value(inside) if threshold is None else threshold
        rows += [_row(group, reference, limit, average, last) for group in inside]
    return Comparison(tuple(rows), references, average, last)


def render(comparison: Comparison, kind: str, width: int) -> str:
    """Return the tables of all environments: as `text` for a terminal of `width` columns, as `markdown` or as `csv`."""
    if kind == "csv":
        return _csv_table(comparison).csv()
    tables = []
    for env in comparison.envs():
        tables.append((env, result_table(comparison, env)))
        if differences := difference_table(comparison, env):
            tables.append((f"{env}: what differs", differences))
    return render_tables(tables, describe_columns(comparison), kind, width)


def render_tables(tables: Sequence[tuple[str, Table]], words: str, kind: str, width: int) -> str:
    """Return tables, each below its title if it has one, and words about their columns, see `render`."""
    if kind == "markdown":
        parts = [f"## {as_markdown(title)}\n\n" * bool(title) + table.markdown() for title, table in tables]
        return "\n\n".join([*parts, as_markdown(words)])
    parts = [f"{title}\n\n{table.text(width)}" if title else table.text(width) for title, table in tables]
    return "\n\n".join([*parts, fold_text(words, width)])


def _csv_table(comparison: Comparison) -> Table:
    """Return a line for each group, with plain numbers, and a column for each config key in which the groups differ."""
    keys = differing_keys([run.config for row in comparison.rows for run in row.group.runs])
    header = ["env", "group", "runs", "best_return", "best_low", "best_high", "last_return", "last_low", "last_high"]
    header += ["threshold", "reached", "steps_to_threshold", "seconds_to_threshold"]
    header += ["against", "p_better", "p_low", "p_high", "directories", *keys]
    lines = []
    for row in comparison.rows:
        group, threshold = row.group, math.nan if row.threshold is None else row.threshold
        numbers = (*row.best, *row.last, threshold, row.reached, row.steps, row.seconds)
        texts = [group.env, group.name, str(len(group.runs)), *map(_plain_number, numbers)]
        texts += [comparison.against[group.env], *map(_plain_number, row.better or Estimate(math.nan))]
        lines.append([*texts, " ".join(str(run.path) for run in group.runs), *map(group.values, keys)])
    return Table(header, lines)


def result_table(comparison: Comparison, env: str) -> Table:
    """Return the table of one environment, without the columns that would be empty."""
    rows = [row for row in comparison.rows if row.group.env == env]
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("group", lambda row: row.group.name),
        ("runs", lambda row: str(len(row.group.runs))),
        ("best return", lambda row: show_estimate(row.best)),
        (f"last {comparison.last}" if comparison.last > 1 else "last return", lambda row: show_estimate(row.last)),
    ]
    if rows[0].threshold is not None:
        columns += [
            (f"reached {show_number(rows[0].threshold)}", lambda row: f"{row.reached} of {len(row.group.runs)}"),
            ("steps to it", lambda row: _show_count(row.steps)),
            ("seconds", lambda row: _show_count(row.seconds)),
        ]
    if len(rows) > 1:
        columns.append(("P(better)", lambda row: show_probability(row.better) if row.better else "-"))
    cells = [[show(row) for _, show in columns] for row in rows]
    return Table([name for name, _ in columns], cells, frozenset(range(1, len(columns))))


def difference_table(comparison: Comparison, env: str) -> Table | None:
    """Return the config keys in which the groups of an environment differ, with a line for each value; None: none.

    If the algorithms differ, keys that one of them lacks are left out.
    """
    groups = [row.group for row in comparison.rows if row.group.env == env]
    configs = [run.config for group in groups for run in group.runs]
    keys = differing_keys(configs)
    if len({config.get("policy.type") for config in configs}) > 1:
        keys = [key for key in keys if all(key in config for config in configs)]
    cells = []
    for key in keys:
        values: dict[str, list[str]] = {}
        for group in groups:
            values.setdefault(group.values(key), []).append(group.name)
        cells += [["" if k else key, value, "; ".join(names)] for k, (value, names) in enumerate(values.items())]
    return Table(["config key", "value", "groups"], cells) if cells else None


def describe_columns(comparison: Comparison) -> str:
    """Return sentences that say what the columns mean."""
    rows = comparison.rows
    average = {"mean": "means", "iqm": "interquartile means"}[comparison.average]
    few = min((count for row in rows if (count := len(row.group.runs)) > 1), default=0)
    intervals = f"Returns are {average} over runs, with 95 % bootstrap intervals."
    texts = [intervals if few else "Each row is a single run, so there are no intervals."]
    if comparison.last > 1:
        texts.append(
            f"A run's last return is the mean of its last {comparison.last} evaluations, or of all if it has fewer."
        )
    if few in COVERAGE:
        texts.append(
            f"Intervals of {few} runs are too short: they contain the truth in {COVERAGE[few]} % of all cases."
        )
    if any(row.threshold is not None for row in rows):
        never = any(math.isinf(row.steps) for row in rows if row.threshold is not None)
        why = f"; '{NEVER}' means that half of them or more did not reach it" if never else ""
        texts.append(
            f"Steps and seconds are medians over all runs, until an evaluation first reached the threshold{why}."
        )
    if any(row.better for row in rows):
        names = dict.fromkeys(comparison.against[row.group.env] for row in rows if row.better)
        texts.append(
            f"P(better) is the probability that a run's last return is higher than that of one of {_quoted(names)}; an "
            "interval that contains 0.5 decides nothing."
        )
    return " ".join(texts)


def _row(group: Group, reference: Group, threshold: float | None, average: str, count: int) -> Row:
    steps, seconds = np.transpose([_first_crossing(run, threshold) for run in group.runs])
    last = _last_returns(group, count)
    better = None if group is reference else probability_of_improvement([last], [_last_returns(reference, count)])
    return Row(
        group,
        best=estimate(np.array([max(run.column(RETURN)[1], default=math.nan) for run in group.runs]), average),
        last=estimate(last, average),
        threshold=threshold,
        reached=int(np.isfinite(steps).sum()),
        steps=float(np.median(steps)),
        seconds=float(np.median(seconds)),
        better=better,
    )


def _last_returns(group: Group, count: int) -> Floats:
    """Return the mean of each run's last `count` evaluations; NaN for a run without one."""
    columns = [run.column(RETURN)[1] for run in group.runs]
    return np.array([values[-count:].mean() if len(values) else math.nan for values in columns])


def _first_crossing(run: Run, threshold: float | None) -> tuple[float, float]:
    """Return env steps and seconds until the first evaluation that reached the threshold; infinite if none did."""
    steps, values = run.column(RETURN)
    places = np.flatnonzero(values >= (math.inf if threshold is None else threshold))
    if not len(places):
        return math.inf, math.inf
    return float(steps[places[0]]), float(run.column(RETURN, "seconds")[0][places[0]])


def _find_stop_value(groups: Sequence[Group]) -> float | None:
    values = {run.config.get("env.stop_value") for group in groups for run in group.runs}
    value = values.pop()
    return float(value) if not values and isinstance(value, int | float) and math.isfinite(value) else None


def _show_count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else NEVER


def _plain_number(number: float) -> str:
    """Return a number for CSV; empty if it is not finite."""
    return json.dumps(number) if math.isfinite(number) else ""


def _quoted(names: Sequence[str] | dict[str, None]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def read_references(path: Path) -> dict[str, tuple[float, float]]:
    """Return the random and the reference return of each environment in a CSV file with the columns `COLUMNS`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [[row[name] for name in COLUMNS] for row in csv.DictReader(file)]
        found = {env: (float(random), float(reference)) for env, random, reference in rows}
    except OSError as error:
        raise UserError(f"Cannot read '{path}': {error.strerror}.") from None
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"'{path}': expected a header '{','.join(COLUMNS)}' and a line with a name and two numbers for each "
            "environment, such as 'CartPole-v1,22,500'."
        ) from None
    for env, (random, reference) in found.items():
        if not math.isfinite(reference - random) or random == reference:
            raise UserError(f"'{path}': expected two different returns of {env}, got {random} and {reference}.")
    return found


def score_groups(groups: Sequence[Group], references: Mapping[str, tuple[float, float]], last: int = 1) -> Scores:
    """Return the scores of the groups of each name, in all environments; see `read_references`.

    A run's return is the mean of its `last` evaluations.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    for env in envs:
        if env not in references:
            raise UserError(f"--normalize: its file has no line for {env}.{closest(env, references)}")
    scores = {}
    for name in dict.fromkeys(group.name for group in groups):
        own = {group.env: _last_returns(group, last) for group in groups if group.name == name}
        tasks = []
        for env in envs:
            random, reference = references[env]
            found = own.get(env, np.array([math.nan]))
            tasks.append((found[~np.isnan(found)] - random) / (reference - random))
            if not len(tasks[-1]):
                raise UserError(
                    f"'{name}' has no evaluated run of {env}, so it does not compare over all tasks. Give runs of all "
                    "tasks for each group, or join groups, for instance with --by algorithm."
                )
        scores[name] = tasks
    return scores


def score_table(
    scores: Scores, threshold: float | None = None, against: str | None = None, plain: bool = False
) -> Table:
    """Return the table over all tasks. Rows are compared with `against`, by default the first.

    Runs are counted above the score `threshold`; None: `THRESHOLD`. `plain` cells are numbers, for CSV.
    """
    limit = THRESHOLD if threshold is None else threshold
    if against is not None and against not in scores:
        raise UserError(f"--against {against}: there is no such group.{closest(against, scores)}")
    reference = against or next(iter(scores))
    titles = ("IQM", f"above {show_number(limit)}", "P(better)")
    rows = []
    for name, tasks in scores.items():
        figures = (
            stratified_estimate(tasks, lambda drawn: average(drawn, "iqm")),
            stratified_estimate(tasks, lambda drawn: performance_profile(drawn, [limit])[:, 0]),
            Estimate(math.nan) if name == reference else probability_of_improvement(tasks, scores[reference]),
        )
        texts = map(_plain_number, chain(*figures)) if plain else map(show_probability, figures)
        rows.append([name, str(sum(map(len, tasks))), *texts])
    header = [name for title in titles for name in (title, f"{title} low", f"{title} high")] if plain else titles
    return Table(["group", "runs", *header], rows, frozenset(range(1, 2 + len(header))))


def describe_scores(scores: Scores, envs: Sequence[str], against: str | None = None) -> str:
    """Return sentences that say what the columns mean."""
    counts = {len(task) for tasks in scores.values() for task in tasks}
    texts = [
        f"Scores in {', '.join(envs)}: 0 is the random return, 1 the reference return. IQM is their "
        "interquartile mean over all runs, with 95 % stratified bootstrap intervals; 'above' is the share of runs with "
        "a higher score. P(better) is the probability, averaged over tasks, that a run's score is higher than one of "
        f"'{against or next(iter(scores))}'; an interval that contains 0.5 decides nothing."
    ]
    if len(counts) > 1:
        texts.append("Tasks with more runs count more in IQM and 'above'.")
    if 1 in counts:
        texts.append("A row with a single run of a task has no intervals.")
    return " ".join(texts)
