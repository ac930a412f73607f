"""REINFORCE: returns by hand, which steps count, the loss and its step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import PGPolicy
from ding_lite.utils.tree import tree_leaves
from tests.policy.actors import OBS, SHAPES, Table, make_actor
from tests.policy.helpers import same

LN = math.log
ENTROPY = -0.75 * LN(0.75) - 0.25 * LN(0.25)


class Actor(Table):
    def forward(self, obs: Tensor, mode: str = "compute_actor") -> dict[str, Any]:
        return super().forward(obs, mode)


def table_policy(*overrides: str) -> PGPolicy:
    """Action 0 has probability 3/4 in both states."""
    return make_actor("pg", *overrides, model=Actor([[LN(3), 0.0]] * 2, []))


def episodes(end: str) -> dict[str, Tensor]:
    """Environment 0 plays rewards 1, 2, 3 as one episode; environment 1 plays 4, then 5, and what begins then."""
    flag = torch.tensor([[False, False], [False, True], [True, False]])
    return {
        "obs": torch.arange(6.0).view(3, 2, 1),
        "action": torch.arange(6).view(3, 2),
        "reward": torch.tensor([[1.0, 4.0], [2.0, 5.0], [3.0, 100.0]]),
        "done": flag if end == "terminated" else torch.zeros_like(flag),
        "traj_flag": flag,
        "final_index": torch.tensor([1 * 2 + 1, 2 * 2 + 0]),
    }


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_returns_by_hand_are_those_of_the_steps_that_count(end: str) -> None:
    samples = table_policy("discount_factor=0.5").to_samples(episodes(end))
    # environment 0: 1 + (2 + 3 / 2) / 2 = 2.75, 3.5, 3; environment 1: 4 + 5 / 2 = 6.5, 5
    assert samples["action"].tolist() == [0, 1, 2, 3, 4]
    assert samples["obs"].tolist() == [[0], [1], [2], [3], [4]]
    assert samples["return_"].tolist() == pytest.approx([2.75, 6.5, 3.5, 5.0, 3.0])
    assert set(samples) == {"obs", "action", "return_"}


def test_an_episode_ends_where_its_trajectory_is_cut_inside_the_block() -> None:
    block = episodes("terminated")
    block["traj_flag"][2] = block["done"][2] = True
    block["final_index"] = torch.tensor([1 * 2 + 1, 2 * 2 + 0, 2 * 2 + 1])
    block["traj_flag"][0, 0] = block["done"][0, 0] = True  # a lost life: no end of an episode
    samples = table_policy("discount_factor=0.5").to_samples(block)
    # 100 is the next episode's, of which environment 0 has none
    assert samples["return_"].tolist() == pytest.approx([1.0, 6.5, 3.5, 5.0, 3.0])


@pytest.mark.parametrize("weight", [None, [0.5, 1.5]])
def test_loss_by_hand(weight: list[float] | None) -> None:
    first, second = weight or (1.0, 1.0)
    batch = {"obs": torch.eye(2), "action": torch.tensor([0, 1]), "return_": torch.tensor([2.0, -1.0])}
    batch |= {"weight": torch.tensor(weight)} if weight else {}
    loss, output = table_policy("learn.entropy_weight=0.1").loss(batch)
    policy_loss = -(first * 2 * LN(0.75) + second * -1 * LN(0.25)) / 2
    assert output["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-5)
    assert loss.item() == pytest.approx(policy_loss - 0.1 * ENTROPY, rel=1e-5)
    assert output["return"].mean().item() == 0.5


@pytest.mark.parametrize("deterministic", [True, False])
def test_deterministic_eval_says_whether_evaluation_samples(deterministic: bool) -> None:
    policy = table_policy(f"deterministic_eval={deterministic}")
    actions = policy.act(torch.eye(2)[:1].expand(4000, 2), explore=False)["action"]
    # 1 with probability 1/4: 1,000 of 4,000, standard deviation 27
    assert actions.sum().item() == (0 if deterministic else pytest.approx(1000, abs=130))
    collected = policy.act(torch.eye(2)[:1].expand(4000, 2))["action"]
    assert collected.sum().item() == pytest.approx(1000, abs=130)


@pytest.mark.parametrize("space", SHAPES)
def test_evaluation_draws_nothing_that_collecting_draws_and_is_repeated_exactly(space: str) -> None:
    policy, obs = make_actor("pg", "deterministic_eval=False", space=space), torch.zeros(50, OBS)
    state, steps = torch.get_rng_state(), []
    for t in range(4):
        if t % 2 == 0:
            policy.reset(explore=False)
        steps.append(list(tree_leaves(policy.act(obs, explore=False)["action"])))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(steps[0] + steps[1], steps[2] + steps[3])
    assert not same(steps[0], steps[1])
