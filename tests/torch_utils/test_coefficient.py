from __future__ import annotations

import math

import pytest

from ding_lite.torch_utils.coefficient import Coefficient


def test_a_coefficient_learns_its_logarithm_and_stays_positive() -> None:
    coefficient = Coefficient(0.5)
    assert coefficient().item() == pytest.approx(0.5)
    assert coefficient.log.item() == pytest.approx(math.log(0.5))
    coefficient().backward()
    assert coefficient.log.grad is not None
    assert coefficient.log.grad.item() == pytest.approx(0.5)  # d exp(x) / dx = exp(x)
    coefficient.log.data.sub_(50.0)
    assert 0 < coefficient().item() < 1e-20
