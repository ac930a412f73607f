from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import value_inv_transform, value_transform


def test_the_transform_by_hand() -> None:
    # sqrt(4) - 1 + 0.01 * 3 = 1.03; sqrt(100) - 1 + 0.99 = 9.99; odd
    torch.testing.assert_close(value_transform(tensor([3.0, -3.0, 99.0, 0.0])), tensor([1.03, -1.03, 9.99, 0.0]))
    assert value_transform(tensor(3.0), 0.5).item() == pytest.approx(2.5)


@pytest.mark.parametrize("eps", [1e-3, 1.0])
def test_the_inverse_undoes_the_transform(eps: float) -> None:
    x = torch.linspace(-500, 500, 101, dtype=torch.float64)
    torch.testing.assert_close(value_inv_transform(value_transform(x, eps), eps), x)
    torch.testing.assert_close(value_transform(value_inv_transform(x, eps), eps), x)
