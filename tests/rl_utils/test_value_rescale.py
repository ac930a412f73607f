from __future__ import annotations

import math

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import inv_symlog, symlog, value_inv_transform, value_transform


def test_the_transform_by_hand() -> None:
    # sqrt(4) - 1 + 0.01 * 3 = 1.03; sqrt(100) - 1 + 0.99 = 9.99; odd
    torch.testing.assert_close(value_transform(tensor([3.0, -3.0, 99.0, 0.0])), tensor([1.03, -1.03, 9.99, 0.0]))
    assert value_transform(tensor(3.0), 0.5).item() == pytest.approx(2.5)


def test_the_inverse_by_hand() -> None:
    # eps 1/2: (sqrt(1 + 2 (2.5 + 1 + 1/2)) - 1) / 1 = 2; 2^2 - 1 = 3, whose transform is 2.5
    torch.testing.assert_close(value_inv_transform(tensor([2.5, -2.5, 0.0]), 0.5), tensor([3.0, -3.0, 0.0]))


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 1.0])
def test_the_inverse_undoes_the_transform(eps: float) -> None:
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(value_inv_transform(value_transform(x, eps), eps), x)
    torch.testing.assert_close(value_transform(value_inv_transform(x, eps), eps), x)


def test_symlog_by_hand_and_its_inverse() -> None:
    # log(e - 1 + 1) = 1
    torch.testing.assert_close(symlog(tensor([math.e - 1, 1 - math.e, 0.0])), tensor([1.0, -1.0, 0.0]))
    torch.testing.assert_close(inv_symlog(tensor([1.0, -1.0, 0.0])), tensor([math.e - 1, 1 - math.e, 0.0]))
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(inv_symlog(symlog(x)), x)


def test_small_values_keep_their_digits() -> None:
    assert symlog(tensor(1e-9)).item() == pytest.approx(1e-9)
    assert inv_symlog(tensor(1e-9)).item() == pytest.approx(1e-9)
