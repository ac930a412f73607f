from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum, weighted_mean


def test_sums_backward_in_time_by_hand() -> None:
    # s_2 = 4; s_1 = 2 + 0.5 * 4 = 4; s_0 = 1 + 0.25 * 4 = 2. The last factor has nothing to multiply.
    delta, factor = tensor([1.0, 2.0, 4.0]), tensor([0.25, 0.5, 9.0])
    assert discounted_sum(delta, factor).tolist() == [2.0, 4.0, 4.0]
    assert delta.tolist() == [1.0, 2.0, 4.0]


def test_a_weighted_mean_is_divided_by_the_number_of_samples() -> None:
    # (1 * 2 + 3 * 4) / 2
    assert weighted_mean(tensor([1.0, 3.0]), tensor([2.0, 4.0])).item() == 7.0
    assert weighted_mean(tensor([1.0, 3.0]), None).item() == 2.0


def test_shapes_that_would_broadcast_are_refused_by_name() -> None:
    check_same_shape(value=torch.zeros(2), weight=None, adv=torch.ones(2))
    with pytest.raises(ValueError, match=r"value \(2,\), adv \(2, 1\)"):
        check_same_shape(value=torch.zeros(2), adv=torch.ones(2, 1))
