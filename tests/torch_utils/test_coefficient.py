from __future__ import annotations

import math

import pytest

from ding_lite.torch_utils.coefficient import Coefficient


def test_a_coefficient_learns_its_logarithm_and_stays_positive() -> None:
    coefficient = Coefficient(0.5)
    assert coefficient().item() == pytest.approx(0.5)
    assert coefficient.learned.item() == pytest.approx(math.log(0.5))
    coefficient().backward()
    assert coefficient.learned.grad is not None
    assert coefficient.learned.grad.item() == pytest.approx(0.5)  # d exp(x) / dx = exp(x)
    coefficient.learned.data.sub_(50.0)
    assert 0 < coefficient().item() < 1e-20


def test_a_coefficient_that_learns_itself_counts_as_zero_below_zero() -> None:
    coefficient = Coefficient(0.5, log_space=False)
    assert coefficient().item() == coefficient.learned.item() == 0.5
    coefficient().backward()
    assert coefficient.learned.grad is not None
    assert coefficient.learned.grad.item() == 1.0
    coefficient.learned.data.fill_(-0.25)
    assert coefficient().item() == 0.0


def test_only_a_number_that_is_learned_as_itself_is_bounded() -> None:
    for log_space, bounded in ((True, -3.0), (False, 0.0)):
        coefficient = Coefficient(0.5, log_space)
        coefficient.learned.data.fill_(-3.0)
        coefficient.bound()
        assert coefficient.learned.item() == bounded


@pytest.mark.parametrize("log_space", [True, False])
def test_a_number_that_is_set_replaces_the_one_before(log_space: bool) -> None:
    coefficient, other = Coefficient(0.5, log_space), Coefficient(0.125, log_space)
    coefficient.set(0.125)
    assert coefficient.learned.item() == other.learned.item()
    assert coefficient().item() == pytest.approx(0.125)
