"""PPO without a critic: the loss by hand, epochs, normalised returns."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.policy.actors import Table
from tests.policy.helpers import build_policy

LN = math.log


class Actor(Table):
    def forward(self, obs: Tensor, mode: str = "compute_actor") -> dict[str, Any]:
        return super().forward(obs, mode)


def table_policy(*overrides: str) -> Any:
    """Action 0 has probability 3/4 in both states."""
    return build_policy("ppo_pg", {}, *overrides, model=Actor([[LN(3), 0.0]] * 2, []))


@pytest.mark.parametrize("weight", [None, [0.5, 1.5]])
def test_loss_by_hand(weight: list[float] | None) -> None:
    first, second = weight or (1.0, 1.0)
    batch = {"obs": torch.eye(2), "action": torch.tensor([0, 1]), "logit": torch.zeros(2, 2)}
    batch |= {"adv": torch.tensor([2.0, -1.0]), "return_": torch.tensor([7.0, 3.0])}
    batch |= {"weight": torch.tensor(weight)} if weight else {}
    loss, output = table_policy("learn.entropy_weight=0.1").loss(batch)
    # The actions had probability 1/2: the ratios are 3/2, clipped to 1.2, and 1/2; min(-0.5, -0.8) is the clipped one.
    policy_loss = -(first * 2 * 1.2 - second * 0.8) / 2
    entropy = (first + second) / 2 * (-0.75 * LN(0.75) - 0.25 * LN(0.25))
    assert output["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-5)
    assert loss.item() == pytest.approx(policy_loss - 0.1 * entropy, rel=1e-5)
    assert output["clipfrac"].item() == pytest.approx((first + second) / 2)
    assert output["approx_kl"].item() == pytest.approx(-(first * LN(1.5) + second * LN(0.5)) / 2, rel=1e-5)
    assert output["return"].mean().item() == 5.0


@pytest.mark.parametrize("adv_norm", [False, True])
def test_every_epoch_has_all_samples_once_with_their_returns(adv_norm: bool) -> None:
    overrides = ("learn.epoch_per_collect=3", "learn.batch_size=4", f"learn.adv_norm={adv_norm}")
    samples = {"obs": torch.zeros(8, 2), "action": torch.arange(8), "return_": torch.arange(8.0) ** 2}
    batches = list(table_policy(*overrides).batches(samples))
    assert [len(batch["adv"]) for batch in batches] == [4] * 6
    for epoch in (batches[:2], batches[2:4], batches[4:]):
        assert sorted(torch.cat([batch["action"] for batch in epoch]).tolist()) == [*range(8)]
    for batch in batches:
        adv, plain = batch["adv"], batch["action"].float() ** 2
        assert torch.equal(batch["return_"], plain)
        torch.testing.assert_close(adv, (plain - plain.mean()) / (plain.std() + 1e-8) if adv_norm else plain)
