"""TD(lambda) and UPGO, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import tensor

from ding_lite.rl_utils import (
    generalized_lambda_returns,
    multistep_forward_view,
    td_lambda_data,
    td_lambda_error,
    upgo_loss,
    upgo_returns,
)
from tests.rl_utils.test_lambda_returns import REWARD, VALUE


def test_td_lambda_loss_by_hand() -> None:
    # Returns 4, 4, 4 as above: errors -1, -4, 0. Half the mean of squares: (1 + 16) / 6.
    value = VALUE.clone().requires_grad_()
    loss = td_lambda_error(td_lambda_data(value, REWARD), 0.5, 0.5)
    assert loss.item() == pytest.approx(17 / 6)
    (gradient,) = torch.autograd.grad(loss, value)
    torch.testing.assert_close(gradient, tensor([[1.0], [4.0], [0.0], [0.0]]) / 3)  # the returns are constants
    weighed = td_lambda_error(td_lambda_data(VALUE, REWARD, tensor([3.0])), 0.5, 0.5)
    assert weighed.item() == pytest.approx(17 / 2)


def test_upgo_returns_by_hand() -> None:
    # s_1: 2 + V(s_2) = 6 < 8, worse than expected: the first return stops, 1 + 8. s_2: 3 + 2 >= 4: 2 + (3 + 2).
    assert upgo_returns(REWARD, VALUE).flatten().tolist() == [9.0, 7.0, 5.0]
    assert upgo_returns(REWARD, torch.zeros(4, 1)).flatten().tolist() == [6.0, 5.0, 3.0]  # as good as expected


def test_upgo_loss_by_hand() -> None:
    # Advantages 9 - 5, 7 - 8, 5 - 4, weighed by rho 1, 2, 1/2. Policy 1/4, 3/4; actions 0, 1, 1.
    logit = tensor([0.0, math.log(3)]).expand(3, 1, 2).clone().requires_grad_()
    rho, action = tensor([[1.0], [2.0], [0.5]]), tensor([[0], [1], [1]])
    loss = upgo_loss(logit, rho, action, REWARD, VALUE)
    weights = [4.0, -2.0, 0.5]
    logs = [math.log(p) for p in (0.25, 0.75, 0.75)]
    assert loss.item() == pytest.approx(-sum(w * log for w, log in zip(weights, logs, strict=True)) / 3)
    (gradient,) = torch.autograd.grad(loss, logit)
    # of -w log pi(a) / 3 by the first logit: -w (1{a = 0} - 1/4) / 3
    expected = [-w * (chosen - 0.25) / 3 for w, chosen in zip(weights, (1, 0, 0), strict=True)]
    torch.testing.assert_close(gradient[:, 0, 0], tensor(expected))


def test_upgo_sums_over_the_units_that_an_action_selects() -> None:
    gen = torch.Generator().manual_seed(0)
    logit, rho = torch.randn(3, 1, 4, 5, generator=gen), torch.rand(3, 1, generator=gen)
    action = torch.randint(5, (3, 1, 4), generator=gen)
    mask = tensor([1.0, 0.0, 1.0, 1.0]).expand(3, 1, 4)
    parts = [upgo_loss(logit[..., unit, :], rho, action[..., unit], REWARD, VALUE) for unit in (0, 2, 3)]
    torch.testing.assert_close(upgo_loss(logit, rho, action, REWARD, VALUE, mask), torch.stack(parts).sum())


@pytest.mark.parametrize(
    "call",
    [
        lambda: generalized_lambda_returns(VALUE[:-1], REWARD, 0.5, 0.5),
        lambda: multistep_forward_view(VALUE, REWARD, 0.5, 0.5),
        lambda: td_lambda_error(td_lambda_data(VALUE[1:], REWARD)),
        lambda: upgo_returns(REWARD, VALUE[1:]),
        lambda: upgo_loss(torch.zeros(3, 1, 2), torch.ones(3), torch.zeros(3, 1).long(), REWARD, VALUE),
    ],
)
def test_shapes_are_checked(call: Any) -> None:
    with pytest.raises(ValueError, match="same shape"):
        call()
