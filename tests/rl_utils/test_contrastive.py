"""InfoNCE against a double loop, and what it is for."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ding_lite.rl_utils import info_nce


def looped(x: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Return the loss by loops over pairs and embeddings."""
    terms = []
    for i in range(len(x)):
        for x_own in x[i]:
            for y_own in y[i]:
                own = (temperature * x_own @ y_own).exp()
                others = [(temperature * other @ y_own).exp() for j in range(len(x)) if j != i for other in x[j]]
                terms.append(-(own / (own + sum(others))).log())
    return torch.stack(terms).mean()


@pytest.mark.parametrize(("heads", "other_heads"), [(1, 1), (2, 3)])
def test_value_and_gradient_are_those_of_a_double_loop(heads: int, other_heads: int) -> None:
    x, y = (torch.randn(5, n, 4, dtype=torch.float64, requires_grad=True) for n in (heads, other_heads))
    losses = info_nce(x, y, 0.7), looped(x, y, 0.7)
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, (x, y)) for loss in losses))


def test_pairs_that_cannot_be_told_apart_cost_the_logarithm_of_their_number() -> None:
    same = torch.ones(8, 1, 4)
    assert info_nce(same, same).item() == pytest.approx(math.log(8))
    assert info_nce(torch.eye(8)[:, None], torch.eye(8)[:, None], 100.0).item() == pytest.approx(0.0, abs=1e-6)


def test_a_single_pair_costs_nothing_and_has_no_gradient() -> None:
    x, y = (torch.randn(1, 2, 4, requires_grad=True) for _ in range(2))
    loss = info_nce(x, y)
    assert loss.item() == 0.0
    assert all(torch.equal(grad, torch.zeros_like(grad)) for grad in torch.autograd.grad(loss, (x, y)))


def test_halves_of_different_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 1, 4\) and \(2, 1, 4\)"):
        info_nce(torch.ones(3, 1, 4), torch.ones(2, 1, 4))
