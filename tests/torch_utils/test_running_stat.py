"""One process; several ones are in test_ranks."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

from ding_lite.torch_utils import RunningMeanStd


def test_parts_of_any_shape_merge_to_the_moments_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(shape, generator=generator) * 3 - 5 for shape in [(1,), (4, 7), (2, 3, 5), ()]]
    stat = RunningMeanStd()
    for part in parts:
        stat.update(part)
    joined = torch.cat([part.reshape(-1) for part in parts]).double()
    torch.testing.assert_close(stat.mean, joined.mean(), rtol=1e-12, atol=0)
    torch.testing.assert_close(stat.var, joined.var(correction=0), rtol=1e-12, atol=0)


def test_a_small_variance_beside_a_large_mean_is_kept() -> None:
    # sums of squares would lose it: (1e8)^2 = 1e16 has no digits left for 0.25, even as float64
    stat = RunningMeanStd()
    for _ in range(3):
        stat.update(tensor([1e8, 1e8 + 1], dtype=torch.float64))
    assert stat.var.item() == pytest.approx(0.25, rel=1e-6)


def test_without_an_update_values_pass_unchanged() -> None:
    stat, x = RunningMeanStd(), torch.randn(5)
    assert torch.equal(stat.normalize(x), x)
    assert torch.equal(stat.denormalize(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_types_and_arguments_are_left_alone(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    stat, x = RunningMeanStd(), torch.ones(shape, dtype=dtype, requires_grad=True)
    before = x.detach().clone()
    stat.update(x)
    assert stat.normalize(x).dtype == stat.denormalize(x).dtype == dtype
    assert torch.equal(x.detach(), before)
    assert not stat.mean.requires_grad
    assert stat.mean.dtype == torch.float64


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_not_remembered(bad: float) -> None:
    stat = RunningMeanStd()
    stat.update(tensor([1.0, bad]))
    assert (stat.mean.item(), stat.var.item(), stat.count.item()) == (0.0, 1.0, 0.0)
    stat.update(tensor([1.0, 3.0]))
    stat.update(tensor([bad, 2.0, 2.0]))
    assert (stat.mean.item(), stat.var.item(), stat.count.item()) == (2.0, 1.0, 2.0)


def test_statistics_with_a_window_forget_by_hand() -> None:
    stat = RunningMeanStd(window=2)
    for values in ([1.0, 3.0], [5.0, 5.0]):
        stat.update(torch.tensor(values))
    assert (stat.mean.item(), stat.var.item()) == (3.5, 2.75)  # of 1, 3, 5, 5
    stat.update(torch.tensor([9.0, 9.0]))
    # two values of mean 3.5 and variance 2.75, and two of 9: 6.25, and (2 * 2.75 + 4 * 2.75^2) / 4
    assert (stat.mean.item(), stat.var.item(), stat.count.item()) == (6.25, 8.9375, 6.0)
