"""P-DQN's losses by hand, its cycle of updates. tests/policy/continuous/test_paddpg.py has its exploration."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.policy.continuous.test_paddpg import hand_batch, make_batch, make_hybrid
from tests.policy.helpers import Formula, parameter_hash


def line(net: Any, inputs: Any, mode: str) -> dict[str, Tensor]:
    """x(s) = s / 2, and Q(s, k, x) = (k + 1) x + s for two types."""
    if mode == "compute_continuous":
        return {"action_args": net.cont(inputs)}
    return {"logit": net.dis(inputs["state"], inputs["action_args"])}


def hand(*overrides: str) -> Any:
    cont = Formula(lambda net, obs: net.slope * obs, slope=0.5)
    dis = Formula(lambda net, obs, action_args: net.slope * action_args + obs, slope=[1.0, 2.0])
    policy = make_hybrid("pdqn", *overrides, model=Formula(line, cont=cont, dis=dis))
    policy._target_dis.slope.copy_(torch.tensor([10.0, 3.0]))
    return policy


# Q(s, a) is 2 * 0.1 + 0.5 = 0.7, and 1 + 0.2 = 1.2 for x clipped to 1. x(s') = 0.2: type 1 is the better one of the
# online network, and the target's value of it is 3 * 0.2 + 0.4 = 1: y = 1 + 0.5 and -1.
ERRORS = (1.5 - 0.7, -1.0 - 1.2)


def test_the_values_loss_by_hand() -> None:
    policy = hand()
    loss, figures = policy._dis_loss(policy._prepare(hand_batch()))
    assert loss.item() == pytest.approx((ERRORS[0] ** 2 + ERRORS[1] ** 2) / 2, rel=1e-5)
    assert figures["priority"].tolist() == pytest.approx([abs(error) for error in ERRORS], rel=1e-5)
    loss.backward()
    assert policy.model.cont.slope.grad is None or not policy.model.cont.slope.grad.any()
    # d/dslope_k of (Q - y)^2 / 2: -(y - Q) x
    torch.testing.assert_close(policy.model.dis.slope.grad, torch.tensor([-ERRORS[1] * 1.0, -ERRORS[0] * 0.1]))


def test_the_arguments_loss_by_hand() -> None:
    policy = hand()
    loss, _ = policy._cont_loss(hand_batch())
    # sum over types: 3 x + 2 s with x = s / 2, so 3.5 s
    assert loss.item() == pytest.approx(-3.5 * (0.5 + 0.2) / 2, rel=1e-5)
    loss.backward()
    assert policy.model.cont.slope.grad.item() == pytest.approx(-3 * 0.35, rel=1e-5)
    assert policy.model.dis.slope.grad is None or not policy.model.dis.slope.grad.any()
    assert policy.model.dis.slope.requires_grad


@pytest.mark.parametrize(("circle", "order"), [(2, "dcdc"), (4, "ddccdd"), (5, "dddccddd")])
def test_a_cycle_trains_the_values_and_then_the_arguments(circle: int, order: str) -> None:
    policy = make_hybrid("pdqn", f"learn.update_circle={circle}", "learn.target_theta=0.5")
    for iteration, expected in enumerate(order):
        before = {name: parameter_hash(getattr(policy.model, name)) for name in ("dis", "cont")}
        target = parameter_hash(policy._target_dis)
        output = policy.learn(make_batch(8, iteration))
        changed = "".join(name[0] for name, old in before.items() if parameter_hash(getattr(policy.model, name)) != old)
        assert changed == expected
        assert ("priority" in output) == ("dis_loss" in output) == (expected == "d")
        assert (parameter_hash(policy._target_dis) != target) == (expected == "d")
