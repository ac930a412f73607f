"""Rainbow: its keys switch its parts off, down to C51 and to DQN."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.policy.helpers import make_batch, make_policy

NO_PRIORITY = ("priority=False",)
PLAIN = ("noisy_net=False", "model.dueling=False", "nstep=1", *NO_PRIORITY)


def loss_of(kind: str, *overrides: str, state: Any = None) -> tuple[torch.Tensor, dict[str, torch.Tensor], Any]:
    torch.manual_seed(0)
    policy = make_policy(*overrides, kind=kind)
    if state is not None:
        policy.load_state_dict({"model": state})
    torch.manual_seed(1)
    return *policy.loss(make_batch(8, weighed=True)), policy.model.state_dict()


def test_without_its_other_parts_it_is_c51() -> None:
    loss, output, state = loss_of("rainbow", *PLAIN)
    expected, of_c51, _ = loss_of("c51", "nstep=1", "discount_factor=0.99", state=state)
    assert torch.equal(loss, expected)
    assert torch.equal(output["clipped_share"], of_c51["clipped_share"])


def test_without_distributions_too_it_is_dqn() -> None:
    policy_loss, output, state = loss_of("rainbow", *PLAIN, "model.distributional=False")
    expected, of_dqn, _ = loss_of("dqn", "nstep=1", "model.dueling=False", state=state)
    assert torch.equal(policy_loss, expected)
    assert output.keys() == of_dqn.keys()


@pytest.mark.parametrize(
    "override",
    ["noisy_net=False", "model.dueling=False", "double=False", "model.distributional=False", "priority=False"],
)
def test_each_key_has_an_effect(override: str) -> None:
    assert loss_of("rainbow")[0] != loss_of("rainbow", override)[0]
