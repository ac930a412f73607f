from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import gae, gae_data


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


def test_by_hand() -> None:
    # gamma 0.5, lambda 0.5: deltas 1 + 1 - 1 = 1; 1 + 1.5 - 2 = 0.5; 2 + 2 - 3 = 1
    # A_2 = 1; A_1 = 0.5 + 0.25 * 1 = 0.75; A_0 = 1 + 0.25 * 0.75 = 1.1875
    adv = gae(gae_data(VALUE, NEXT_VALUE, REWARD), 0.5, 0.5)
    torch.testing.assert_close(adv, column(1.1875, 0.75, 1.0))


def test_termination_cuts_the_bootstrap_and_the_sum() -> None:
    # terminated at 1: delta_1 = 1 + 0 - 2 = -1 and nothing of A_2; A_0 = 1 + 0.25 * -1 = 0.75
    adv = gae(gae_data(VALUE, NEXT_VALUE, REWARD, flags(0, 1, 0)), 0.5, 0.5)
    torch.testing.assert_close(adv, column(0.75, -1.0, 1.0))


def test_truncation_cuts_the_sum_alone() -> None:
    # truncated at 1: delta_1 = 0.5 keeps V(final observation), nothing of A_2; A_0 = 1 + 0.25 * 0.5 = 1.125
    adv = gae(gae_data(VALUE, NEXT_VALUE, REWARD, flags(0, 0, 0), flags(0, 1, 0)), 0.5, 0.5)
    torch.testing.assert_close(adv, column(1.125, 0.5, 1.0))


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


def test_lambda_1_gives_discounted_returns_less_the_value() -> None:
    # until the cut: sum of gamma^k r, and gamma^n V of the true last state unless it is terminal
    data: Any = random_data(1)
    gamma = 0.9
    expected = torch.empty_like(data.value)
    for b in range(5):
        return_: Any = 0.0
        for t in reversed(range(len(data.value))):
            if data.traj_flag[t, b] or t == len(data.value) - 1:
                return_ = 0.0 if data.done[t, b] else data.next_value[t, b]
            return_ = data.reward[t, b] + gamma * return_
            expected[t, b] = return_ - data.value[t, b]
    torch.testing.assert_close(gae(data, gamma, 1.0), expected)


def test_pieces_of_a_trajectory_in_separate_columns_are_independent() -> None:
    data: Any = random_data(2)
    whole = gae(data)
    for b in range(5):
        alone = gae(gae_data(*(tensor_TB[:, b] for tensor_TB in data)))
        torch.testing.assert_close(alone, whole[:, b])


@pytest.mark.parametrize("without", [(), ("traj_flag",), ("done", "traj_flag")])
def test_agents_that_share_a_reward_have_the_advantages_of_each_alone(without: tuple[str, ...]) -> None:
    shared: Any = random_data()
    shared = shared._replace(**dict.fromkeys(without))
    agents: list[Any] = [random_data(seed) for seed in (1, 2, 3)]
    value, next_value = (torch.stack(parts, -1) for parts in zip(*(agent[:2] for agent in agents), strict=True))
    adv = gae(shared._replace(value=value, next_value=next_value), 0.9, 0.7)
    alone = [gae(shared._replace(value=agent.value, next_value=agent.next_value), 0.9, 0.7) for agent in agents]
    torch.testing.assert_close(adv, torch.stack(alone, -1))


def test_a_right_value_has_no_advantage() -> None:
    # reward 1 for ever: V = 1 / (1 - gamma) = 10
    value = torch.full((6, 2), 10.0)
    adv = gae(gae_data(value, value, torch.ones(6, 2)), gamma=0.9)
    torch.testing.assert_close(adv, torch.zeros(6, 2), atol=1e-5, rtol=0.0)


def test_a_value_that_is_not_finite_does_not_leak_through_done() -> None:
    next_value = column(2.0, float("nan"), 4.0)
    adv = gae(gae_data(VALUE, next_value, REWARD, flags(0, 1, 0)), 0.5, 0.5)
    torch.testing.assert_close(adv, column(0.75, -1.0, 1.0))


def test_flags_may_be_numbers() -> None:
    data: Any = random_data()
    as_numbers = data._replace(done=data.done.float(), traj_flag=data.traj_flag.float())
    torch.testing.assert_close(gae(as_numbers), gae(data))


def test_advantages_carry_no_gradient() -> None:
    assert not gae(gae_data(VALUE.clone().requires_grad_(), NEXT_VALUE, REWARD)).requires_grad


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"value \(3, 1\).*reward \(3,\)"):
        gae(gae_data(VALUE, NEXT_VALUE, REWARD.squeeze(1)))
    with pytest.raises(ValueError, match="done"):
        gae(gae_data(VALUE, NEXT_VALUE, REWARD, flags(0, 1)))


def test_arguments_are_not_written_into() -> None:
    data: Any = random_data()
    copies = [value.clone() for value in data]
    gae(data)
    for value, copy in zip(data, copies, strict=True):
        torch.testing.assert_close(value, copy, rtol=0.0, atol=0.0)
