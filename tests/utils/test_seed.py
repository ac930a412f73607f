"""Random streams repeat after a seed and go on after a restored state."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from ding_lite.utils.checkpoint.file import load_checkpoint, save_checkpoint
from ding_lite.utils.seed import random_state, set_random_state, set_seed


def draw() -> list[float]:
    """Draw from every generator; one normal number of numpy, so that its second is cached."""
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), *torch.randn(3).tolist()]


@pytest.mark.parametrize("seed", [3, 2**40 + 1])  # also one past 32 bits
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(seed: int) -> None:
    set_seed(seed)
    first = draw()
    set_seed(seed)
    assert draw() == first
    set_seed(seed + 1)
    assert all(a != b for a, b in zip(first, draw(), strict=True))


def test_a_state_from_a_checkpoint_continues_every_stream(tmp_path: Path) -> None:
    set_seed(0)
    draw()  # odd number of normal draws: the cached one must come back too
    save_checkpoint(str(tmp_path / "x"), {"random": random_state()})
    expected = [draw() for _ in range(5)]
    set_seed(1)
    set_random_state(load_checkpoint(str(tmp_path / "x"))["random"])
    assert [draw() for _ in range(5)] == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_cuda_stream_continues_even_if_the_state_was_loaded_onto_the_gpu(tmp_path: Path) -> None:
    set_seed(0)
    torch.randn(3, device="cuda")
    save_checkpoint(str(tmp_path / "x"), {"random": random_state()})
    expected = torch.randn(5, device="cuda")
    set_random_state(load_checkpoint(str(tmp_path / "x"), map_location="cuda")["random"])
    assert torch.equal(torch.randn(5, device="cuda"), expected)
