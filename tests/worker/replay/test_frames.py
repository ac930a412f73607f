"""Frames come back to the bit, whatever they are, and take less room where that is worth it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ding_lite.worker.replay.state import CHUNK, compress_frames, decompress_frames


def moving_square(num_rows: int, num_envs: int) -> Tensor:
    """Black frames with a white square that moves by a pixel in each row, elsewhere in each environment."""
    frames = torch.zeros(num_rows, num_envs, 84, 84, dtype=torch.uint8)
    for t in range(num_rows):
        for n in range(num_envs):
            frames[t, n, (t + 7 * n) % 80 :, 10:14] = 255
    return frames.flatten(0, 1)


@pytest.mark.parametrize("num_rows", [1, 7, CHUNK // (84 * 84 * 3) + 5])  # the last ones take two chunks
def test_similar_frames_shrink_and_come_back(num_rows: int) -> None:
    frames = moving_square(num_rows, 3)
    packed = compress_frames(frames, 3)
    assert isinstance(packed, dict)
    assert len(packed["chunks"]) == (2 if num_rows > 7 else 1)
    assert sum(chunk.nbytes for chunk in packed["chunks"]) < frames.nbytes / 20
    into = torch.ones(len(frames) + 4, 84, 84, dtype=torch.uint8)
    decompress_frames(packed, into)
    assert torch.equal(into[:-4], frames)
    assert into[-4:].min() == 1


@pytest.mark.parametrize(
    "frames",
    [
        torch.randint(256, (6, 20, 20), dtype=torch.uint8),  # noise does not shrink
        torch.zeros(6, 20, 20),  # no bytes
        torch.zeros(6, 20, dtype=torch.uint8),  # no images
        torch.zeros(0, 20, 20, dtype=torch.uint8),
    ],
    ids=["noise", "floats", "vectors", "none"],
)
def test_what_would_not_gain_stays_as_it_is(frames: Tensor) -> None:
    assert compress_frames(frames, 2) is frames
    into = torch.full_like(frames, 3)
    decompress_frames(frames, into)
    assert torch.equal(into, frames)
