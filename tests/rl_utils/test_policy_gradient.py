from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    calculate_kl_div,
    gae,
    gae_data,
    generalized_lambda_returns,
    kl_divergence,
    log_prob,
    multistep_forward_view,
)
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


VALUES = tensor([[5.0], [8.0], [4.0], [2.0]])  # V(s_0) to V(s_3)
REWARDS = tensor([[1.0], [2.0], [3.0]])


def test_a_terminal_state_ends_the_return() -> None:
    # After the second step: 2 alone; before it 1 + (2/2 + 8/2) / 2 = 3.5.
    done = tensor([[False], [True], [False]])
    returns = generalized_lambda_returns(VALUES, REWARDS, 0.5, 0.5, done)
    assert returns.flatten().tolist() == [3.5, 2.0, 4.0]
    infinite = VALUES.clone()
    infinite[2] = torch.inf
    assert torch.isfinite(generalized_lambda_returns(infinite, REWARDS, 0.5, 0.5, done)).all()


def naive_returns(value: Tensor, reward: Tensor, gamma: Tensor, lambda_: Tensor) -> Tensor:
    """Return the mixture of all n-step returns, for one trajectory: value `[T+1]`, the rest `[T]`."""
    steps, result = len(reward), []
    for t in range(steps):
        total, trace, discounted, discount = 0.0, 1.0, 0.0, 1.0
        for k in range(t, steps):  # the return that bootstraps after step k
            discounted += discount * float(reward[k])
            discount *= float(gamma[k])
            stop = 1.0 if k == steps - 1 else 1.0 - float(lambda_[k])
            total += trace * stop * (discounted + discount * float(value[k + 1]))
            trace *= float(lambda_[k])
        result.append(total)
    return tensor(result, dtype=torch.float64)


def test_lambda_returns_are_a_mixture_of_all_n_step_returns() -> None:
    gen = torch.Generator().manual_seed(0)
    value_TB, reward_TB = (torch.randn(steps, 3, generator=gen, dtype=torch.float64) for steps in (8, 7))
    gamma_TB, lambda_TB = torch.rand(2, 7, 3, generator=gen, dtype=torch.float64)
    returns = multistep_forward_view(value_TB[1:], reward_TB, gamma_TB, lambda_TB)
    for b in range(3):
        parts = (part[:, b] for part in (value_TB, reward_TB, gamma_TB, lambda_TB))
        torch.testing.assert_close(returns[:, b], naive_returns(*parts))


def test_what_estimates_of_a_kl_and_their_gradients_are_in_the_mean() -> None:
    """All actions once, weighted by their number times their probability under q, give exact means."""
    gen = torch.Generator().manual_seed(0)
    q, p = torch.randn(2, 5, generator=gen).double()
    q.requires_grad_()
    actions, rows = torch.arange(5), (q.expand(5, 5), p.expand(5, 5))
    weight = 5 * q.detach().softmax(-1)

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, q)[0]

    forward, backward = kl_divergence(q, p), kl_divergence(p, q)
    estimates = {
        kind: calculate_kl_div(log_prob(rows[0], actions) - log_prob(rows[1], actions), kind, weight)
        for kind in ("k1", "k2", "k3")
    }
    torch.testing.assert_close(estimates["k1"], forward)
    torch.testing.assert_close(estimates["k3"], forward)
    for kind, expected in (("k1", torch.zeros(5).double()), ("k2", gradient(forward)), ("k3", gradient(backward))):
        torch.testing.assert_close(torch.autograd.grad(estimates[kind], q, retain_graph=True)[0], expected)


def test_an_unknown_estimate_of_a_kl_is_refused() -> None:
    with pytest.raises(ValueError, match="kl_type must be 'k1', 'k2' or 'k3', got 'k0'"):
        calculate_kl_div(torch.zeros(2), "k0")
    with pytest.raises(ValueError, match="the same shape"):
        calculate_kl_div(torch.zeros(2), "k1", torch.ones(2, 1))
