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


def random_data(seed: int = 0, steps: int = 12) -> gae_data:
    """One trajectory after another in each of 5 columns, with next values that are those of the next row if not cut."""
    generator = torch.Generator().manual_seed(seed)
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


@pytest.mark.parametrize("without", [(), ("traj_flag",), ("done", "traj_flag")])
def test_agents_that_share_a_reward_have_the_advantages_of_each_alone(without: tuple[str, ...]) -> None:
    shared: Any = random_data()
    shared = shared._replace(**dict.fromkeys(without))
    agents: list[Any] = [random_data(seed) for seed in (1, 2, 3)]
    value, next_value = (torch.stack(parts, -1) for parts in zip(*(agent[:2] for agent in agents), strict=True))
    adv = gae(shared._replace(value=value, next_value=next_value), 0.9, 0.7)
    alone = [gae(shared._replace(value=agent.value, next_value=agent.next_value), 0.9, 0.7) for agent in agents]
    torch.testing.assert_close(adv, torch.stack(alone, -1))


def test_a_value_that_is_not_finite_does_not_leak_through_done() -> None:
    next_value = column(2.0, float("nan"), 4.0)
    adv = gae(gae_data(VALUE, next_value, REWARD, flags(0, 1, 0)), 0.5, 0.5)
    torch.testing.assert_close(adv, column(0.75, -1.0, 1.0))


def test_flags_may_be_numbers() -> None:
    data: Any = random_data()
    as_numbers = data._replace(done=data.done.float(), traj_flag=data.traj_flag.float())
    torch.testing.assert_close(gae(as_numbers), gae(data))


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
