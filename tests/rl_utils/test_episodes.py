"""Which steps of a block count: each environment's first episodes, as many for all."""

from __future__ import annotations

import pytest
import torch

from ding_lite.rl_utils.policy_gradient import first_episodes


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # (row, environment) of ends in 4 rows of 2 environments; the steps that count, by environment
        ([(0, 0), (1, 0), (3, 1)], [[1, 0, 0, 0], [1, 1, 1, 1]]),
        ([(1, 0), (3, 0), (0, 1), (1, 1), (2, 1)], [[1, 1, 1, 1], [1, 1, 0, 0]]),
        ([(1, 0)], [[0, 0, 0, 0], [0, 0, 0, 0]]),
        ([], [[0, 0, 0, 0], [0, 0, 0, 0]]),
    ],
)
def test_the_first_episodes_count_as_many_as_every_environment_has_ended(
    ends: list[tuple[int, int]], expected: list[list[int]]
) -> None:
    index = torch.tensor([t * 2 + n for t, n in ends], dtype=torch.int64)
    assert first_episodes(index, 4, 2).T.int().tolist() == expected
