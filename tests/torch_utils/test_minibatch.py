"""One process, or sizes as if there were several; real ones are in test_ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.torch_utils import minibatches, normalize_parts
from ding_lite.torch_utils.minibatch import explained_variance


def make_samples(size: int) -> dict[str, Any]:
    """Rows that tell their number in every leaf."""
    number = torch.arange(size)
    logit = {"action_type": number[:, None] * 2, "action_args": {"mu": number[:, None, None] * 3.0}}
    return {"obs": number, "logit": logit}


def test_other_ranks_sizes_say_the_number_of_parts_and_the_weights() -> None:
    # 6 here and 10 there: mean 8, so 2 parts of 4, and 3 of ours beside 5 of theirs: 3 * 2 / 8 = 0.75
    parts = minibatches(make_samples(6), 4, [6, 10])
    assert [part["weight"].tolist() for part in parts] == [[0.75] * 3] * 2
    weighted = minibatches(make_samples(6) | {"weight": torch.full((6,), 2.0)}, 4, [6, 10])
    assert [part["weight"].tolist() for part in weighted] == [[1.5] * 3] * 2
    # 7 and 6, in 3 parts: ours 3, 2, 2 beside 2, 2, 2
    uneven = minibatches(make_samples(7), 2, [7, 6])
    assert [len(part["obs"]) for part in uneven] == [3, 2, 2]
    assert [part["weight"][0].item() for part in uneven] == pytest.approx([3 * 2 / 5, 1, 1])


def test_what_is_not_active_has_no_weight_in_means_and_in_the_normalisation() -> None:
    samples = {"adv": torch.tensor([[1.0, 50.0], [3.0, 50.0]]), "active": torch.tensor([[True, False], [True, False]])}
    (part,) = minibatches(samples, 2, [2])
    assert part.keys() == {"adv", "weight"}
    assert part["weight"].tolist() == [[2, 0], [2, 0]]  # four numbers, of which two count
    assert (part["adv"] * part["weight"]).mean() == 2
    (adv,) = normalize_parts([part["adv"].flatten()], [part["weight"].flatten()])
    assert adv[::2].sort().values.tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])  # variance ((-1)^2 + 1^2) / 1
    samples["active"][:] = False
    assert minibatches(samples, 2, [2]) == []
    samples = {"adv": torch.arange(6.0), "active": torch.arange(6) == 4}
    (part,) = minibatches(samples, 2, [6])  # nothing counts in two of three
    assert (part["adv"] * part["weight"]).mean() == 4


def test_a_part_is_normalised_by_hand() -> None:
    # mean 2, deviations -1, 0, 1: unbiased variance 2 / 2 = 1; the other is shorter: mean 5, variance 2 / 1
    first, second = normalize_parts([tensor([1.0, 2.0, 3.0]), tensor([4.0, 6.0])])
    torch.testing.assert_close(first, tensor([-1.0, 0.0, 1.0]))
    torch.testing.assert_close(second, tensor([-1.0, 1.0]) / 2**0.5)


def test_equal_values_and_single_ones_become_zero() -> None:
    first, second = normalize_parts([torch.full((3,), 7.0), tensor([5.0])])
    assert first.tolist() == [0, 0, 0]
    assert second.tolist() == [0]


def test_parts_keep_their_type_and_are_not_written_into() -> None:
    part = torch.randn(5, dtype=torch.float64, requires_grad=True)
    before = part.detach().clone()
    (normal,) = normalize_parts([part])
    assert (normal.dtype, normal.requires_grad) == (torch.float64, False)
    assert torch.equal(part.detach(), before)


def test_explained_variance_by_hand() -> None:
    return_ = tensor([[1.0, 3.0], [5.0, 7.0]])  # variance 5
    assert explained_variance(return_ + 2, return_).item() == 1.0  # a constant error is not one of variance
    assert explained_variance(torch.zeros(2, 2), return_).item() == pytest.approx(0.0)
    assert explained_variance(tensor([[1.0, 3.0], [4.0, 6.0]]), return_).item() == pytest.approx(1 - 0.25 / 5)
    assert explained_variance(return_, torch.ones(2, 2)).item() == 0.0  # returns that are all alike
