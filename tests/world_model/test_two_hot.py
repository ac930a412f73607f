"""Two-hot encodings of numbers of any size, against dense ones in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ding_lite.world_model.two_hot import LIMIT, NUM_BINS, symexp, symlog, two_hot_error, two_hot_mean

BINS = np.linspace(-LIMIT, LIMIT, NUM_BINS)
TARGETS = [0.0, 1.0, -1.0, 0.05, 37.5, -1e4, 1e6]


def encoded(target: float) -> np.ndarray:
    """Return the shares of a target in all bins: linear interpolation between two of them."""
    place = math.copysign(math.log1p(abs(target)), target)
    return np.array([np.interp(place, BINS, row) for row in np.eye(NUM_BINS)])


def test_symlog_of_a_few_numbers_and_its_inverse() -> None:
    x = torch.tensor([0.0, math.e - 1.0, 1.0 - math.e, 1e6], dtype=torch.float64)
    assert symlog(x).tolist() == pytest.approx([0.0, 1.0, -1.0, math.log(1e6 + 1.0)])
    assert symexp(symlog(x)).tolist() == pytest.approx(x.tolist())


def test_the_error_is_the_cross_entropy_with_the_two_hot_encoding() -> None:
    logit = torch.randn(len(TARGETS), NUM_BINS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    error = two_hot_error(logit, torch.tensor(TARGETS, dtype=torch.float64))
    logp = (logit - logit.logsumexp(-1, keepdim=True)).numpy()
    expected = [-(encoded(target) * row).sum() for target, row in zip(TARGETS, logp, strict=True)]
    assert error.tolist() == pytest.approx(expected)


def test_the_prediction_of_an_encoding_is_its_target_and_that_of_a_new_layer_is_zero() -> None:
    prob = torch.tensor(np.array([encoded(target) for target in TARGETS]))
    assert two_hot_mean(prob.log()).tolist() == pytest.approx(TARGETS, rel=1e-6, abs=1e-9)
    assert two_hot_mean(torch.zeros(NUM_BINS)).item() == pytest.approx(0.0, abs=1e-5)


def test_a_target_beyond_the_last_bin_is_that_bin_and_nan_is_noticed() -> None:
    logit = torch.zeros(4, NUM_BINS)
    logit[:, -1] = 3.0
    error = two_hot_error(logit, torch.tensor([1e30, 6e8, math.inf, math.nan]))
    assert error[0] == error[1] == pytest.approx(-logit[0].log_softmax(-1)[-1].item())
    assert error[2:].isnan().all()
