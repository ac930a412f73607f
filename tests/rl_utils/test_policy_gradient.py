from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import gae, gae_data
from ding_lite.rl_utils.policy_gradient import first_episodes


def column(*values: float) -> Tensor:
    return tensor(values).unsqueeze(1)


def flags(*values: int) -> Tensor:
    return tensor(values, dtype=torch.bool).unsqueeze(1)


VALUE, NEXT_VALUE, REWARD = column(1.0, 2.0, 3.0), column(2.0, 3.0, 4.0), column(1.0, 1.0, 2.0)


def random_data() -> gae_data:
    """One trajectory after another in each of 5 columns, with next values that are those of the next row if not cut."""
    generator, steps = torch.Generator().manual_seed(0), 12
    values = torch.randn(steps + 1, 5, generator=generator, dtype=torch.float64)
    reward, final = (torch.randn(steps, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    done = torch.rand(steps, 5, generator=generator) < 0.15
    traj_flag = done | (torch.rand(steps, 5, generator=generator) < 0.15)
    return gae_data(values[:-1], torch.where(traj_flag, final, values[1:]), reward, done, traj_flag)


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
def test_the_recursion_equals_the_explicit_sum(lambda_: float) -> None:
    # A_t = sum over l of (gamma lambda)^l delta_{t+l}, up to the trajectory's last step
    data: Any = random_data()
    gamma = 0.9
    delta = data.reward + gamma * (~data.done).double() * data.next_value - data.value
    expected = torch.zeros_like(delta)
    for b in range(delta.shape[1]):
        for t in range(len(delta)):
            for step in range(t, len(delta)):
                expected[t, b] += (gamma * lambda_) ** (step - t) * delta[step, b]
                if data.traj_flag[step, b]:
                    break
    torch.testing.assert_close(gae(data, gamma, lambda_), expected)


def test_a_value_that_is_not_finite_does_not_leak_through_done() -> None:
    next_value = column(2.0, float("nan"), 4.0)
    adv = gae(gae_data(VALUE, next_value, REWARD, flags(0, 1, 0)), 0.5, 0.5)
    torch.testing.assert_close(adv, column(0.75, -1.0, 1.0))


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"value \(3, 1\).*reward \(3,\)"):
        gae(gae_data(VALUE, NEXT_VALUE, REWARD.squeeze(1)))
    with pytest.raises(ValueError, match="done"):
        gae(gae_data(VALUE, NEXT_VALUE, REWARD, flags(0, 1)))


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
