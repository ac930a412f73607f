"""Averages against numbers worked by hand, and intervals against how often they contain the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ding_lite.results.statistics import (
    average,
    estimate,
    intervals,
    performance_profile,
    probability_of_improvement,
    stratified_intervals,
)

pytest.importorskip("scipy")
# scores of four tasks, six runs each, of two algorithms; what rliable 1.2 says about them stands in the tests
FIRST = np.array(
    [
        [0.91, 0.85, 0.83, 0.67, 0.85, 0.89],
        [0.47, 0.57, 0.25, 0.46, 0.44, 0.77],
        [0.30, 0.40, 0.11, 0.01, 0.26, 0.10],
        [0.73, 0.94, 0.71, 0.52, 0.96, 0.79],
    ]
)
SECOND = np.array(
    [
        [0.89, 0.75, 0.78, 0.73, 0.67, 0.83],
        [0.42, 0.44, 0.51, 0.37, 0.70, 0.34],
        [0.19, 0.15, 0.33, 0.42, 0.50, 0.52],
        [0.27, 0.45, 0.59, 0.87, 0.70, 0.99],
    ]
)


def test_estimates_of_one_run_and_of_none_have_no_interval() -> None:
    one = estimate(np.array([5.0, np.nan]))
    assert (one.value, math.isnan(one.low), math.isnan(one.high)) == (5.0, True, True)
    assert math.isnan(estimate(np.array([np.nan])).value)
    same = estimate(np.array([200.0, 200.0, 200.0]))
    assert (same.value, same.low, same.high) == (200.0, 200.0, 200.0)


@pytest.mark.parametrize(
    ("kind", "count", "least", "most"),
    [
        ("iqm", 3, 0.70, 0.80),  # the truth is beyond all three values in 2 * (1/2)^3 = 25 % of all samples
        ("mean", 5, 0.86, 0.97),
        ("iqm", 10, 0.91, 0.98),
    ],
)
def test_intervals_contain_the_truth_as_often_as_they_say(kind: str, count: int, least: float, most: float) -> None:
    """Of 300 samples of normal numbers; the standard error of a share of 95 % is then 1.3 %."""
    samples = np.random.default_rng(1).normal(size=(count, 300))
    low, high = intervals(samples, kind)
    assert least <= np.mean((low <= 0) & (high >= 0)) <= most


def test_the_probability_of_improvement_solves_newcombes_equation() -> None:
    """Three runs above three others: 1 - p = z sqrt(p (1 - p) (1 + 2 ((1 - p) / (2 - p) + p / (1 + p))) / 9)."""
    better = probability_of_improvement([np.array([4.0, 5.0, 6.0])], [np.array([1.0, 2.0, 3.0])])
    worse = probability_of_improvement([np.array([1.0, 2.0, 3.0])], [np.array([4.0, 5.0, 6.0])])
    p = better.low
    assert 0.5 < p < 0.7
    assert 1 - p == pytest.approx(1.959964 * math.sqrt(p * (1 - p) * (1 + 2 * ((1 - p) / (2 - p) + p / (1 + p))) / 9))
    assert (better.value, better.high, worse.value, worse.low) == (1.0, 1.0, 0.0, 0.0)
    assert worse.high == pytest.approx(1 - better.low)


@pytest.mark.parametrize(
    ("scores", "value", "low", "high", "within"),
    [
        (FIRST, 0.61333, 0.53667, 0.68583, 0.004),
        (SECOND, 0.55417, 0.47500, 0.62833, 0.004),
        (np.arange(80.0).reshape(5, 16).T, 39.5, 32.5, 46.525, 0.3),
    ],
)
def test_interquartile_means_and_their_intervals_are_rliables(
    scores: np.ndarray, value: float, low: float, high: float, within: float
) -> None:
    assert average(scores.ravel(), "iqm") == pytest.approx(value, abs=1e-5)
    found = stratified_intervals(scores, lambda drawn: average(drawn, "iqm"), level=0.95)
    assert found == pytest.approx([low, high], abs=within)


def test_performance_profiles_and_their_intervals_are_rliables() -> None:
    thresholds = [0.0, 0.25, 0.5, 0.75, 1.0]
    assert performance_profile(FIRST.ravel(), thresholds) == pytest.approx([1, 20 / 24, 14 / 24, 9 / 24, 0])
    low, high = stratified_intervals(FIRST, lambda drawn: performance_profile(drawn, thresholds), level=0.95)
    step = 1 / 24 + 1e-9  # shares of 24 runs
    assert low == pytest.approx([1, 0.70833, 0.5, 0.25, 0], abs=step)
    assert high == pytest.approx([1, 0.95833, 0.66667, 0.5, 0], abs=step)


def test_the_probability_of_improvement_in_tasks_is_rliables() -> None:
    """rliable's bootstrap says [0.403, 0.715], and would be certain where all runs win."""
    result = probability_of_improvement(FIRST, SECOND)
    assert result.value == pytest.approx(0.55556, abs=1e-5)
    assert (result.low, result.high) == pytest.approx((0.403, 0.715), abs=0.03)
    wins = probability_of_improvement(FIRST + 1, FIRST)
    assert (wins.value, wins.high) == (1.0, 1.0)
    assert 0.8 < wins.low < 0.95


def test_the_probability_of_improvement_counts_pairs() -> None:
    result = probability_of_improvement([np.array([1.0, 3.0])], [np.array([0.0, 1.0, 2.0])])
    assert result.value == pytest.approx(4.5 / 6)  # 1 > 0, 1 = 1; 3 > 0, 1, 2
    assert 0 < result.low < result.value < result.high < 1
    assert math.isnan(probability_of_improvement([np.array([])], [np.array([1.0])]).value)
    single = probability_of_improvement([np.array([1.0])], [np.array([0.0])])
    assert (single.value, math.isnan(single.low)) == (1.0, True)
