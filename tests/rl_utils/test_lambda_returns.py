"""Lambda returns by hand, and against sums written out."""

from __future__ import annotations

import torch
from torch import Tensor, tensor

from ding_lite.rl_utils import (
    generalized_lambda_returns,
    multistep_forward_view,
)

VALUE = tensor([[5.0], [8.0], [4.0], [2.0]])  # V(s_0) to V(s_3)
REWARD = tensor([[1.0], [2.0], [3.0]])


def test_a_terminal_state_ends_the_return() -> None:
    # After the second step: 2 alone; before it 1 + (2/2 + 8/2) / 2 = 3.5.
    done = tensor([[False], [True], [False]])
    returns = generalized_lambda_returns(VALUE, REWARD, 0.5, 0.5, done)
    assert returns.flatten().tolist() == [3.5, 2.0, 4.0]
    infinite = VALUE.clone()
    infinite[2] = torch.inf
    assert torch.isfinite(generalized_lambda_returns(infinite, REWARD, 0.5, 0.5, done)).all()


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
