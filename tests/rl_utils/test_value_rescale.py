"""The rescaling of values: numbers by hand, and the inverse."""

from __future__ import annotations

import pytest
import torch

from ding_lite.rl_utils.value_rescale import value_inv_transform, value_transform


def test_by_hand() -> None:
    # eps 0.01: h(3) = sqrt 4 - 1 + 0.03, h(-8) = -(sqrt 9 - 1) - 0.08, h(99) = sqrt 100 - 1 + 0.99
    x = torch.tensor([0.0, 3.0, -8.0, 99.0])
    assert value_transform(x).tolist() == pytest.approx([0.0, 1.03, -2.08, 9.99])
    assert value_transform(x, eps=1.0).tolist() == pytest.approx([0.0, 4.0, -10.0, 108.0])
    assert x.tolist() == [0.0, 3.0, -8.0, 99.0]


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 1.0])
def test_each_is_the_inverse_of_the_other(eps: float) -> None:
    x = torch.tensor([0.0, 1e-3, 0.5, 7.0, 1e3, 1e6], dtype=torch.float64)
    x = torch.cat([x, -x]).view(3, 4)
    torch.testing.assert_close(value_inv_transform(value_transform(x, eps), eps), x)
    torch.testing.assert_close(value_transform(value_inv_transform(x, eps), eps), x)


def test_order_and_sign_are_kept() -> None:
    x = torch.linspace(-50, 50, 1001)
    y = value_transform(x)
    assert (y.diff() > 0).all()
    assert torch.equal(y.sign(), x.sign())
