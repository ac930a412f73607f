"""Compares groups over several tasks, as Agarwal et al. 2021 (arXiv:2108.13264) recommend.

A score is 0 for a random policy's return and 1 for a reference return, so that scores of all tasks can be averaged.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ding_lite.results.compare import last_returns, plain_number
from ding_lite.results.groups import Group
from ding_lite.results.run import Floats
from ding_lite.results.statistics import (
    Estimate,
    average,
    performance_profile,
    probability_of_improvement,
    stratified_estimate,
)
from ding_lite.results.table import Table, show_number, show_probability
from ding_lite.utils.registry import UserError, closest

NONE = Estimate(math.nan, math.nan, math.nan)
THRESHOLD = 0.9  # score of the column "above" if none is given
COLUMNS = ("env", "random", "reference")
Scores = Mapping[str, Sequence[Floats]]  # name of a group: for each task, the scores of its runs


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
    """Return the scores of the groups of each name, in all environments.

    `references` is what `read_references` returned. A run's return is the mean of its `last` evaluations.
    """
    envs = list(dict.fromkeys(group.env for group in groups))
    for env in envs:
        if env not in references:
            raise UserError(f"--normalize: its file has no line for {env}.{closest(env, references)}")
    scores = {}
    for name in dict.fromkeys(group.name for group in groups):
        own = {group.env: last_returns(group, last) for group in groups if group.name == name}
        tasks = []
        for env in envs:
            random, reference = references[env]
            found = own.get(env, np.array([math.nan]))
            tasks.append((found[~np.isnan(found)] - random) / (reference - random))
            if not len(tasks[-1]):
                raise UserError(
                    f"'{name}' has no evaluated run of {env}, so it does not compare over all tasks. Give runs of all "
                    "tasks, or group those that belong together with --by algorithm."
                )
        scores[name] = tasks
    return scores


def score_table(
    scores: Scores, threshold: float | None = None, against: str | None = None, plain: bool = False
) -> Table:
    """Return the table over all tasks.

    Runs are counted above the score `threshold`; None: `THRESHOLD`. The others are compared with the row `against`;
    None: the first. `plain` cells are numbers, for CSV.
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
            NONE if name == reference else probability_of_improvement(tasks, scores[reference]),
        )
        numbers = [plain_number(number) for part in figures for number in (part.value, part.low, part.high)]
        count = str(sum(map(len, tasks)))
        rows.append([name, count, *(numbers if plain else map(show_probability, figures))])
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
