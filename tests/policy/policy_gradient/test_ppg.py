"""PPG: the losses of an auxiliary phase by hand, when it comes, what it learns from, and what a checkpoint keeps."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.actors import Table
from tests.policy.helpers import build_policy, compile_for, same_tree

LN = math.log


class Networks(Table):
    """A table of logits and values, and the auxiliary values of the two states."""

    def __init__(self) -> None:
        super().__init__([[LN(3), 0.0]] * 2, [1.0, 2.0])
        self.auxiliary = nn.Parameter(torch.tensor([3.0, 5.0]))

    def forward(self, obs: Tensor, mode: str = "compute_actor_critic") -> dict[str, Any]:
        if mode == "compute_auxiliary":
            return super().forward(obs) | {"auxiliary_value": obs @ self.auxiliary}
        return super().forward(obs, mode)


@pytest.mark.parametrize("weight", [None, [0.5, 1.5]])
def test_the_loss_of_an_auxiliary_phase_by_hand(weight: list[float] | None) -> None:
    first, second = weight or (1.0, 1.0)
    overrides = ("learn.aux_bc_weight=2.0", "learn.value_weight=0.1")
    policy = build_policy("ppg", {}, *overrides, model=Networks())
    batch = {"obs": torch.eye(2), "logit": torch.zeros(2, 2), "return_": torch.tensor([4.0, 4.0])}
    loss, output = policy.loss(batch | ({"weight": torch.tensor(weight)} if weight else {}))
    auxiliary = 0.5 * (first * 1 + second * 1) / 2
    value = 0.5 * (first * 9 + second * 4) / 2
    clone = (first + second) / 2 * 0.5 * (LN(0.5 / 0.75) + LN(0.5 / 0.25))  # KL of (1/2, 1/2) from (3/4, 1/4)
    assert output["auxiliary_loss"].item() == pytest.approx(auxiliary)
    assert output["value_loss"].item() == pytest.approx(value)
    assert output["clone_loss"].item() == pytest.approx(clone, rel=1e-5)
    assert loss.item() == pytest.approx(auxiliary + 2 * clone + 0.1 * value, rel=1e-5)


def collects(number: int) -> tuple[Any, list[dict[str, Any]]]:
    """Return the config of a PPG with an auxiliary phase after two collects, and this many blocks to learn from."""
    epochs = ("learn.aux_freq=2", "learn.aux_train_epoch=3", "learn.batch_size=36", "learn.value_norm=True")
    cfg = compile_for("ppg", *(f"policy.{words}" for words in epochs))
    block = parity.collect_block(cfg)
    return cfg, [block | {"obs": block["obs"] + n} for n in range(number)]


def learn(policy: Any, block: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Learn from a block, which is overwritten afterwards as a collector does, and return the batches."""
    torch.manual_seed(seed)
    batches: list[dict[str, Any]] = []
    block = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, block)
    for batch in policy.batches(policy.to_samples(block)):
        batches.append(batch)
        policy.learn(batch)
    block["obs"].zero_()
    return batches


def test_every_second_collect_ends_with_a_phase_that_learns_from_both() -> None:
    cfg, blocks = collects(4)
    policy = parity.create_policy(cfg)
    for n in (0, 2):
        assert all("adv" in batch for batch in learn(policy, blocks[n], seed=n))  # 72 samples in 2 batches
        policy_phase = learn(policy, blocks[n + 1], seed=n + 1)
        auxiliary = [batch for batch in policy_phase if "adv" not in batch]
        assert len(policy_phase) == 2 + len(auxiliary) == 2 + 3 * 4
        both = torch.cat([blocks[n]["obs"], blocks[n + 1]["obs"]]).flatten(0, 1).double()
        for epoch in (auxiliary[:4], auxiliary[4:8], auxiliary[8:]):
            seen = torch.cat([batch["obs"] for batch in epoch])
            assert sorted(seen.tolist()) == sorted(both.tolist())


def test_an_auxiliary_phase_preserves_the_policy_at_its_beginning() -> None:
    cfg, blocks = collects(2)
    policy = parity.create_policy(cfg)
    learn(policy, blocks[0], seed=0)
    for batch in policy.batches(policy.to_samples(blocks[1])):
        if "adv" in batch:
            policy.learn(batch)
            continue
        with torch.no_grad():
            expected = policy.model(batch["obs"], mode="compute_actor")["logit"]
        torch.testing.assert_close(batch["logit"], expected)
        assert policy.loss(batch)[1]["clone_loss"].item() == pytest.approx(0.0, abs=1e-12)


def test_a_run_that_goes_on_between_two_phases_equals_one_that_did_not_stop() -> None:
    cfg, blocks = collects(3)
    policy, other = (parity.create_policy(cfg) for _ in range(2))
    for n in (0, 1, 2):
        learn(policy, blocks[n], seed=n)
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    other.load_local_state_dict(copy.deepcopy(policy.local_state_dict()))
    assert same_tree(*(learn(one, blocks[0], seed=3) for one in (policy, other)))
    assert same_tree(policy.state_dict(), other.state_dict())


def test_what_is_kept_between_phases_belongs_to_environments() -> None:
    """So that it is dealt with them when the number of ranks changes."""
    cfg, (block,) = collects(1)
    whole, *parts = (parity.create_policy(cfg) for _ in range(3))
    learn(whole, block, seed=0)
    for policy, columns in zip(parts, parity.UNEVEN[2], strict=True):
        learn(policy, parity.take_columns(block, columns), seed=0)
    kept, first, second = (policy.local_state_dict()["kept"]["0"] for policy in (whole, *parts))
    torch.testing.assert_close(kept, {key: torch.cat([first[key], second[key]]) for key in kept})
