from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, distributions, tensor

from ding_lite.rl_utils import a2c_data, a2c_error, a2c_error_continuous

# Probabilities 3/4, 1/4 and 1/2, 1/2. The second action of the first, the first of the second.
LOGIT = tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
POLICY = [2.0 * math.log(4.0), -1.0 * math.log(2.0)]  # -A log p
VALUE = [2.25, 1.0]  # (3 - 1.5)^2, (0 - 1)^2
ENTROPY = [math.log(4.0) - 0.75 * math.log(3.0), math.log(2.0)]


def data(**changes: Any) -> a2c_data:
    base = a2c_data(LOGIT, tensor([1, 0]), tensor([1.5, 1.0]), tensor([2.0, -1.0]), tensor([3.0, 0.0]), None)
    return base._replace(**changes)


def continuous_data() -> a2c_data:
    generator = torch.Generator().manual_seed(0)
    mu, sigma, action = torch.randn(3, 6, 2, generator=generator, dtype=torch.float64)
    value, adv, return_, weight = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    return a2c_data({"mu": mu, "sigma": sigma.exp()}, action, value, adv, return_, weight)


def test_by_hand() -> None:
    policy_loss, value_loss, entropy_loss = a2c_error(data())
    assert policy_loss.item() == pytest.approx(sum(POLICY) / 2)
    assert value_loss.item() == pytest.approx(sum(VALUE) / 2)
    assert entropy_loss.item() == pytest.approx(sum(ENTROPY) / 2)


@pytest.mark.parametrize("chosen", [0, 1])
def test_weights_enter_every_term(chosen: int) -> None:
    # a weight of 2 on one of 2 samples leaves that sample's figures
    loss = a2c_error(data(weight=tensor([2.0, 0.0] if chosen == 0 else [0.0, 2.0])))
    assert [term.item() for term in loss] == pytest.approx([POLICY[chosen], VALUE[chosen], ENTROPY[chosen]])


def test_gradient_by_hand() -> None:
    # policy: -A (onehot - p) / 2, so -1 * (-3/4, 3/4) and 0.5 * (1/2, -1/2); value: 2 (V - R) / 2
    logit, value = LOGIT.clone().requires_grad_(), tensor([1.5, 1.0], requires_grad=True)
    loss = a2c_error(data(logit=logit, value=value))
    (loss.policy_loss + loss.value_loss).backward()
    torch.testing.assert_close(logit.grad, tensor([[0.75, -0.75], [0.25, -0.25]]))
    torch.testing.assert_close(value.grad, tensor([-1.5, 1.0]))


def test_continuous_agrees_with_torch_distributions() -> None:
    sample: Any = continuous_data()
    normal = distributions.Independent(distributions.Normal(sample.logit["mu"], sample.logit["sigma"]), 1)
    policy_loss, value_loss, entropy_loss = a2c_error_continuous(sample)
    torch.testing.assert_close(policy_loss, -(sample.weight * sample.adv * normal.log_prob(sample.action)).mean())
    torch.testing.assert_close(value_loss, (sample.weight * (sample.return_ - sample.value) ** 2).mean())
    torch.testing.assert_close(entropy_loss, (sample.weight * normal.entropy()).mean())


def test_gradients_of_a_continuous_policy() -> None:
    sample: Any = continuous_data()

    def losses(mu: Tensor, sigma: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return a2c_error_continuous(sample._replace(logit={"mu": mu, "sigma": sigma}, value=value))

    inputs = (sample.logit["mu"], sample.logit["sigma"], sample.value)
    assert torch.autograd.gradcheck(losses, tuple(x.detach().clone().requires_grad_() for x in inputs))


def test_a_hybrid_action_is_the_sum_of_its_parts() -> None:
    parts: Any = continuous_data()
    logit = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    types = tensor([0, 1, 2, 0, 1, 2])
    both = a2c_error(
        parts._replace(
            logit={"action_type": logit, "action_args": parts.logit},
            action={"action_type": types, "action_args": parts.action},
        )
    )
    first, second = a2c_error(parts._replace(logit=logit, action=types)), a2c_error(parts)
    torch.testing.assert_close(both.policy_loss, first.policy_loss + second.policy_loss)
    torch.testing.assert_close(both.entropy_loss, first.entropy_loss + second.entropy_loss)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"value \(2, 1\)"):
        a2c_error(data(value=torch.ones(2, 1)))
    with pytest.raises(ValueError, match="weight"):
        a2c_error(data(weight=torch.ones(1)))


def test_arguments_are_not_written_into() -> None:
    before: Any = data(weight=tensor([1.0, 2.0]))
    copies = [value.clone() for value in before]
    a2c_error(before)
    for value, copy in zip(before, copies, strict=True):
        torch.testing.assert_close(value, copy, rtol=0.0, atol=0.0)
