"""Averages against numbers worked by hand, and intervals against how often they contain the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ding_lite.results.statistics import average, estimate, intervals, probability_of_improvement

pytest.importorskip("scipy")


def test_the_interquartile_mean_leaves_out_the_outer_quarters() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0])  # 2 of 8 at each end: the mean of 2, 3, 4, 5
    assert average(values, "iqm") == 3.5
    assert average(values) == 91 / 8
    assert average(values[:3], "iqm") == 1.0  # a quarter of 3 runs is none


def test_estimates_of_one_run_and_of_none_have_no_interval() -> None:
    one = estimate(np.array([5.0, np.nan]))
    assert (one.value, math.isnan(one.low), math.isnan(one.high)) == (5.0, True, True)
    assert math.isnan(estimate(np.array([np.nan])).value)
    same = estimate(np.array([200.0, 200.0, 200.0]))
    assert (same.value, same.low, same.high) == (200.0, 200.0, 200.0)


def test_with_three_runs_the_interval_is_their_range() -> None:
    result = estimate(np.array([1.0, 2.0, 6.0]))
    assert (result.value, result.low, result.high) == (3.0, 1.0, 6.0)


@pytest.mark.parametrize("kind", ["mean", "iqm"])
@pytest.mark.parametrize(
    ("count", "least", "most"),
    [
        (3, 0.70, 0.80),  # the truth is beyond all three values in 2 * (1/2)^3 = 25 % of all samples
        (5, 0.86, 0.97),
        (10, 0.91, 0.98),
    ],
)
def test_intervals_contain_the_truth_as_often_as_they_say(kind: str, count: int, least: float, most: float) -> None:
    """Of 300 samples of normal numbers; the standard error of a share of 95 % is then 1.3 %."""
    samples = np.random.default_rng(1).normal(size=(count, 300))
    low, high = intervals(samples, kind)
    assert least <= np.mean((low <= 0) & (high >= 0)) <= most


def test_intervals_of_skewed_values_are_a_little_short() -> None:
    """Of exponential numbers, whose mean is 1: a symmetric t interval contains it in 88 % of samples of 5."""
    low, high = intervals(np.random.default_rng(1).exponential(size=(5, 300)))
    assert 0.75 <= np.mean((low <= 1) & (high >= 1)) <= 0.95


def test_the_probability_of_improvement_counts_pairs() -> None:
    result = probability_of_improvement(np.array([1.0, 3.0]), np.array([0.0, 1.0, 2.0]))
    assert result.value == pytest.approx(4.5 / 6)  # 1 > 0, 1 = 1; 3 > 0, 1, 2
    assert 0 < result.low < result.value < result.high < 1
    assert math.isnan(probability_of_improvement(np.array([]), np.array([1.0])).value)
    single = probability_of_improvement(np.array([1.0]), np.array([0.0]))
    assert (single.value, math.isnan(single.low)) == (1.0, True)


def test_the_probability_of_improvement_solves_newcombes_equation() -> None:
    """Three runs above three others: 1 - p = z sqrt(p (1 - p) (1 + 2 ((1 - p) / (2 - p) + p / (1 + p))) / 9)."""
    better = probability_of_improvement(np.array([4.0, 5.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    worse = probability_of_improvement(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    p = better.low
    assert 0.5 < p < 0.7
    assert 1 - p == pytest.approx(1.959964 * math.sqrt(p * (1 - p) * (1 + 2 * ((1 - p) / (2 - p) + p / (1 + p))) / 9))
    assert (better.value, better.high, worse.value, worse.low) == (1.0, 1.0, 0.0, 0.0)
    assert worse.high == pytest.approx(1 - better.low)


@pytest.mark.parametrize(("count", "shift", "least"), [(3, 0.0, 0.86), (5, 1.0, 0.92), (10, 0.5, 0.92)])
def test_intervals_of_the_probability_contain_the_truth(count: int, shift: float, least: float) -> None:
    """For normal numbers P(X > Y) is Phi(shift / sqrt 2).

    Of three and three equal runs, 2 of 20 orders separate them; no interval that excludes 0.5 then can exceed 90 %.
    """
    generator = np.random.default_rng(2)
    truth = (1 + math.erf(shift / 2)) / 2
    found = 0
    for _ in range(500):
        result = probability_of_improvement(generator.normal(shift, 1, count), generator.normal(0, 1, count))
        found += result.low <= truth <= result.high
    assert found / 500 >= least
