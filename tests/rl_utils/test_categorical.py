"""The projection onto a support and the losses of C51: numbers by hand, and a naive computation with loops."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import categorical_projection


def test_float32_keeps_the_probability_of_one_at_both_ends() -> None:
    dist = torch.full((3, 51), 1 / 51)
    reward = tensor([-1e9, 0.1, 1e9])
    projected = categorical_projection(dist, reward, torch.zeros(3).bool(), torch.full((3,), 0.99), -0.7, 0.1)
    torch.testing.assert_close(projected.sum(-1), torch.ones(3))
    assert projected[0, 0] == pytest.approx(1.0)
    assert projected[2, -1] == pytest.approx(1.0)


def test_shapes_that_would_broadcast_are_refused() -> None:
    vector = torch.zeros(2)
    with pytest.raises(ValueError, match=r"expected a distribution \[B, K\]"):
        categorical_projection(torch.ones(2, 1, 3), vector, vector, vector, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"value_gamma \[B\], got \(2, 3\), \(2,\), \(2,\), \(2, 1\)"):
        categorical_projection(torch.ones(2, 3), vector, vector, torch.zeros(2, 1), 0.0, 1.0)


def test_an_infinite_return_is_not_hidden_by_the_support() -> None:
    projected = categorical_projection(
        torch.full((2, 3), 1 / 3), tensor([torch.inf, 0.5]), torch.zeros(2).bool(), torch.ones(2), 0.0, 1.0
    )
    assert projected.isnan().any(1).tolist() == [True, False]
