"""The checksum sees every bit and every place; tests/distributed/test_nonfinite.py compares it over ranks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ding_lite.torch_utils.networks import checksum


def numbers(dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in [(3, 5), (), (2, 4, 3, 3)]]


def test_how_numbers_are_cut_into_tensors_is_no_matter() -> None:
    whole = torch.tensor([5, -1, 2], dtype=torch.int32).view(torch.float32)
    assert checksum([whole])[0] == 5 - 1 + 2
    assert checksum([whole]) == checksum([whole[:1], whole[1:]]) != checksum([])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_copy_of_another_layout_has_the_same_checksum(dtype: torch.dtype) -> None:
    tensors = numbers(dtype)
    other = [tensor.clone() for tensor in tensors]
    other[2] = other[2].contiguous(memory_format=torch.channels_last)
    assert checksum(tensors) == checksum(other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("index", range(3))
def test_the_last_bit_of_any_tensor_counts(dtype: torch.dtype, index: int) -> None:
    tensors, expected = numbers(dtype), checksum(numbers(dtype))
    one = tensors[index].view(-1)[-1:]
    one.copy_(torch.nextafter(one, torch.full_like(one, math.inf)))
    assert checksum(tensors) != expected


def test_numbers_that_changed_places_are_seen() -> None:
    first, second = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 1.0, 3.0])
    assert checksum([first])[0] == checksum([second])[0]
    assert checksum([first]) != checksum([second])
    assert checksum([first, second]) != checksum([second, first])


def test_the_sign_of_zero_and_a_nan_count() -> None:
    sums = {checksum([torch.tensor([value, 1.0])]) for value in (0.0, -0.0, math.nan, math.inf)}
    assert len(sums) == 4
