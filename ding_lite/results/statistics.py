"""Means over runs, and how far they can be trusted.

The intervals are bootstrap intervals over runs: the runs of a group are drawn again with replacement, and the interval
contains the means of most draws. The usual percentile interval is too narrow for a few runs. Ours is the expanded one
of Hesterberg, "What Teachers Should Know about the Bootstrap" (arXiv:1411.5279): its level is raised until it is as
wide as Student's t interval would be for normal data.

A bootstrap interval never reaches beyond the smallest and the largest value. With 3 runs it therefore contains the true
mean in 75 % of all cases, not 95 %; with 5 runs in about 91 %, with 10 in about 94 %. tests/results/test_statistics.py
measures this.

Scores of several tasks are drawn within each task: the stratified bootstrap of Agarwal et al. 2021, "Deep Reinforcement
Learning at the Edge of the Statistical Precipice" (arXiv:2108.13264), with the expanded level too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ding_lite.utils.registry import load_extra

LEVEL = 0.95
AVERAGES = ("mean", "iqm")
DRAWS = 9999  # resamples of a bootstrap
SLIT = 1e-9


class Estimate(NamedTuple):
    """An average over runs with its 95 % interval; NaN where there is none, as for a single run."""

    value: float
    low: float = math.nan
    high: float = math.nan


def average(values: NDArray[Any], kind: str = "mean", axis: int = -1) -> Any:
    """Return the mean, or the interquartile mean (`iqm`) of Agarwal et al. 2021 (arXiv:2108.13264).

    The interquartile mean leaves out the lowest and the highest quarter of the values, rounded down: it is the mean
    itself for fewer than 4 values.
    """
    if kind == "mean":
        return np.mean(values, axis)
    return load_extra("scipy.stats", "plot").trim_mean(values, 0.25, axis)


def estimate(values: NDArray[Any], kind: str = "mean") -> Estimate:
    """Return the average of some runs' values, without NaN, with its interval."""
    values = values[~np.isnan(values)]
    return stratified_estimate([values], lambda drawn: average(drawn, kind)) if len(values) else Estimate(math.nan)


def intervals(values_RP: NDArray[Any], kind: str = "mean") -> NDArray[Any]:
    """Return the lower and upper ends of the 95 % bootstrap intervals of P averages over R runs, `[2, P]`.

    `values_RP` has a row for each run; the same runs are drawn for all points. `kind` is a word of `AVERAGES`. The ends
    are NaN for a single run.
    """
    ends_P2 = [stratified_intervals([values_R], lambda drawn: average(drawn, kind)) for values_R in values_RP.T]
    return np.transpose(ends_P2)


def stratified_intervals(
    scores: Collection[NDArray[Any]], statistic: Callable[[NDArray[Any]], NDArray[Any]], level: float | None = None
) -> NDArray[Any]:
    """Return the lower and upper end of a statistic's 95 % interval by the stratified bootstrap, `[2]` or `[2, P]`.

    Args:
        scores: an array for each task, within which its runs are drawn; of a single run, the ends are NaN.
        statistic: maps draws of the scores of all tasks, `[D, R]`, to `[D]` or `[D, P]`.
        level: of the percentile interval; None: the expanded one.
    """
    count = min(map(len, scores))
    if count < 2:
        return np.full_like(statistic(np.concatenate([*scores])[None]).repeat(2, 0), np.nan)
    generator = np.random.default_rng(0)
    drawn = [task[generator.integers(len(task), size=(DRAWS, len(task)))] for task in scores]
    tail = (1 - (level or _expanded_level(count, len(scores)))) / 2
    return np.quantile(statistic(np.concatenate(drawn, axis=1)), (tail, 1 - tail), axis=0)


def stratified_estimate(
    scores: Collection[NDArray[Any]], statistic: Callable[[NDArray[Any]], NDArray[Any]]
) -> Estimate:
    """Return a statistic of the scores of all tasks with its interval, see `stratified_intervals`."""
    (value,) = statistic(np.concatenate([*scores])[None])
    low, high = stratified_intervals(scores, statistic)
    return Estimate(float(value), float(low), float(high))


def performance_profile(scores: NDArray[Any], thresholds: Iterable[float]) -> NDArray[Any]:
    """Return the share of the scores, along their last axis, that exceed each threshold (Agarwal et al. 2021)."""
    return np.stack([np.mean(scores > threshold, axis=-1) for threshold in thresholds], axis=-1)


def _expanded_level(count: int, tasks: int = 1) -> float:
    """Return the level at which a percentile interval is as wide as Student's t interval of `count` values a task.

    The bootstrap's standard error lacks the factor sqrt(n / (n - 1)), and its quantile is the normal distribution's.
    """
    stats = load_extra("scipy.stats", "plot")
    quantile = stats.t.ppf((1 + LEVEL) / 2, tasks * (count - 1)) * math.sqrt(count / (count - 1))
    return float(1 - 2 * stats.norm.cdf(-quantile))


def probability_of_improvement(better: Collection[NDArray[Any]], worse: Collection[NDArray[Any]]) -> Estimate:
    """Return the probability that a run of one group exceeds a run of another, with its 95 % interval.

    It is the share of pairs in which the first run is larger, averaged over tasks; equal ones count half (Agarwal et
    al. 2021). The interval is method 5 of Newcombe, "Confidence intervals for an effect size measure based on the
    Mann-Whitney statistic. Part 2" (Statistics in Medicine 25, 2006): all probabilities p with |p - share| <= z *
    sqrt(V(p)). V is the variance of the mean over tasks whose probabilities are all p; if they differ, it is smaller. A
    bootstrap would say [1, 1] for three runs that are all better than three others. For three and three equal runs of
    one task the interval contains the truth in 90 % of all cases, for more runs or tasks in 94 % or more.

    Both groups have an array for each task, whose NaN are left out. The result is NaN if a group is empty, and has no
    interval if both have a single run of a task.
    """
    tasks = [(a[~np.isnan(a)], b[~np.isnan(b)]) for a, b in zip(better, worse, strict=True)]
    sizes = [(len(a), len(b)) for a, b in tasks]
    if not min(map(min, sizes)):
        return Estimate(math.nan)
    differences = [a[:, None] - b for a, b in tasks]
    share = float(np.mean([np.mean((difference > 0) + 0.5 * (difference == 0)) for difference in differences]))
    if min(map(sum, sizes)) == 2:
        return Estimate(share)
    z = load_extra("scipy.stats", "plot").norm.ppf((1 + LEVEL) / 2)

    def outside(p: float) -> float:
        places = (1 - p) / (2 - p) + p / (1 + p)
        spread = sum((1 + ((n + m) / 2 - 1) * places) / (n * m) for n, m in sizes) / len(sizes) ** 2
        return (p - share) ** 2 - z**2 * p * (1 - p) * spread

    find = load_extra("scipy.optimize", "plot").brentq
    low = find(outside, 0, min(share, 1 - SLIT)) if share > 0 else 0.0  # at 0 and 1 the equation holds trivially
    high = find(outside, max(share, SLIT), 1) if share < 1 else 1.0
    return Estimate(share, float(low), float(high))
