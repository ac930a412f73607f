"""The networks of DDPG with hybrid actions."""

from __future__ import annotations

from typing import Any

import torch

from ding_lite.model import PDQN, HybridQAC

SHAPE = {"action_type_shape": 3, "action_args_shape": 2}


def test_the_critic_takes_a_type_as_its_number_as_probabilities_and_as_logits() -> None:
    model, obs, args = HybridQAC(4, SHAPE), torch.randn(3, 4), torch.rand(3, 2)
    number = model.critic(obs, action={"action_type": torch.tensor([2, 0, 1]), "action_args": args})
    one_hot = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    sure = model.critic(obs, action={"action_type": one_hot, "action_args": args})
    assert torch.equal(number, sure)
    inputs = {"obs": obs, "logit": (one_hot - 1) * 1e9, "action": {"action_args": args}}  # whose softmax is one_hot
    assert torch.equal(model(inputs, mode="compute_critic")["q_value"], sure)
    doubtful = model.critic(obs, action={"action_type": torch.full((3, 3), 1 / 3), "action_args": args})
    assert not torch.allclose(doubtful, sure)


MASK = [[1, 0], [0, 1], [0, 0]]


def dependence(**options: Any) -> list[list[bool]]:
    """Return for each type whether its value depends on each argument."""
    torch.manual_seed(0)
    model = PDQN(4, SHAPE, [16, 8], dueling=False, **options)
    args = torch.zeros(3, 2, requires_grad=True)
    model({"state": torch.randn(3, 4), "action_args": args}, mode="compute_discrete")[
        "logit"
    ].diagonal().sum().backward()
    assert args.grad is not None
    return (args.grad != 0).tolist()  # of type k in row k


def test_with_multi_pass_a_value_depends_on_the_types_own_arguments_alone() -> None:
    assert dependence() == [[True, True]] * 3
    assert dependence(multi_pass=True, action_mask=MASK) == [[True, False], [False, True], [False, False]]
    assert dependence(action_mask=MASK) == [[True, True]] * 3  # without multi_pass it is not used


def test_multi_pass_is_the_plain_network_with_the_other_arguments_at_zero() -> None:
    plain, multi = PDQN(4, SHAPE, [16, 8]), PDQN(4, SHAPE, [16, 8], multi_pass=True, action_mask=MASK)
    multi.load_state_dict(plain.state_dict())
    obs, args = torch.randn(5, 4), torch.rand(5, 2)
    got = multi.dis(obs, action_args=args)
    for kind, row in enumerate(MASK):
        expected = plain.dis(obs, action_args=args * torch.tensor(row))[:, kind]
        torch.testing.assert_close(got[:, kind], expected)
