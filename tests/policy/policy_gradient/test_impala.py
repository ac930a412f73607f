"""IMPALA's loss by hand: on-policy returns, corrected ones, ends inside and at the end of sequences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ding_lite.policy import IMPALAPolicy
from ding_lite.utils.tree import tree_map
from tests.policy.actors import ADV, hand_block, hand_model, make_actor

LN = math.log
OPTIONS = ("discount_factor=0.5", "learn.lambda_=0.5", "learn.entropy_weight=0.0")


def hand_batch() -> dict[str, Any]:
    """Return `actors.hand_block` as two sequences of three steps, as the replay buffer would.

    The buffer names truncated trajectories only, so the terminal one at t = 0 has no final observation.
    """
    batch: dict[str, Any] = {key: value for key, value in hand_block().items() if key != "episode_step"}
    return batch | {"final_obs": batch["final_obs"][1:], "final_index": torch.tensor([2]), "index": torch.arange(2)}


def hand_policy(*overrides: str) -> IMPALAPolicy:
    return make_actor("impala", *OPTIONS, *overrides, model=hand_model())


# The policy that learns is the one that acted, so every ratio is 1, and V-trace's target is V + ADV, that of
# generalised advantage estimation. Its policy gradient's advantage is 1 + v' / 2 - V with the target v' of the next
# state (remark 1 of the paper): where none follows, V of the true next observation.
#   environment 0: v = 3.125, 5.5, 4.5: 1 + 5.5 / 2 - 1, then 1 + 9 / 2 - 3 (truncated in state 8), 1 + 7 / 2 - 5
#   environment 1: v = 1, 3.75, 5: 1 - 2 (terminal), 1 + 5 / 2 - 4, 1 + 8 / 2 - 6
PG_ADV = [2.75, -1.0, 2.5, -0.5, -0.5, -1.0]


def test_on_policy_loss_by_hand() -> None:
    loss, output = hand_policy("learn.value_weight=0.25").loss(hand_batch())
    policy_loss = LN(2) * sum(PG_ADV) / 6  # -mean(A log(1/2))
    value_loss = sum(adv**2 for adv in ADV) / 6
    assert output["policy_loss"].item() == pytest.approx(policy_loss, rel=1e-5)
    assert output["value_loss"].item() == pytest.approx(value_loss, rel=1e-5)
    assert output["entropy"].item() == pytest.approx(LN(2), rel=1e-5)
    assert loss.item() == pytest.approx(policy_loss + 0.25 * value_loss, rel=1e-5)


def test_the_gradient_reaches_every_visited_state_alone() -> None:
    policy = hand_policy("learn.value_weight=0.5")
    policy.learn(hand_batch())
    # d/dV of 0.5 (v - V)^2 / 6, v a constant: -ADV / 6; none in the states that only follow
    value = torch.tensor([*(-adv / 6 for adv in ADV), 0.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(policy.model.value.grad, value)
    # d/dlogit of -A log p(0) / 6 at p = 1/2: -A / 12 for action 0, A / 12 for the other
    logit = torch.tensor([[-adv / 12, adv / 12] for adv in PG_ADV] + [[0.0, 0.0]] * 4)
    torch.testing.assert_close(policy.model.get_parameter("_parts.logit").grad, logit)


def test_a_sequence_that_ends_truncated_bootstraps_by_its_last_observation() -> None:
    batch = hand_batch()
    batch["traj_flag"][2, 0] = True  # as last_obs is the true final one then, nothing changes
    _, output = hand_policy().loss(batch)
    assert output["value_loss"].item() == pytest.approx(sum(adv**2 for adv in ADV) / 6, rel=1e-5)
    batch["done"][2, 0] = True  # delta = 1 - 5
    _, output = hand_policy().loss(batch)
    assert output["value_loss"].item() == pytest.approx((sum(adv**2 for adv in ADV) - 0.5**2 + 4**2) / 6, rel=1e-5)


@pytest.mark.parametrize(
    ("overrides", "rho", "rho_pg"),
    [
        ([], 1.0, 1.0),
        (["learn.rho_clip_ratio=2.0"], 2.0, 1.0),
        (["learn.rho_pg_clip_ratio=1.5"], 1.0, 1.5),
        (["learn.rho_clip_ratio=9.0", "learn.rho_pg_clip_ratio=9.0"], 2.0, 2.0),
    ],
)
def test_importance_weights_are_clipped_each_by_its_own_bound(overrides: list[str], rho: float, rho_pg: float) -> None:
    # One step each, as both ends are cuts: action 0 had probability 1/4, now 1/2: the ratio is 2.
    policy = hand_policy(*overrides)
    batch = {key: tree_map(lambda leaf: leaf[:1], hand_batch()[key]) for key in ("obs", "action", "reward")}
    batch |= {"logit": torch.tensor([[[0.0, LN(3)]] * 2]), "last_obs": torch.eye(10)[2:4]}
    batch |= {"done": torch.tensor([[False, True]]), "traj_flag": torch.tensor([[False, True]])}
    _, output = policy.loss(batch)
    # delta = 1 + 3 / 2 - 1 = 1.5, and 1 - 2 = -1
    assert output["value_loss"].item() == pytest.approx(((1.5 * rho) ** 2 + rho**2) / 2, rel=1e-5)
    assert output["policy_loss"].item() == pytest.approx(LN(2) * rho_pg * (1.5 - 1) / 2, rel=1e-5)


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0])
def test_the_trace_is_clipped_by_its_own_bound(c: float) -> None:
    # Two steps: v_0 - V_0 = delta_0 + c / 4 delta_1, with delta 1 + 3 / 2 - 1 = 1.5 and 1 + 5 / 2 - 3 = 0.5.
    policy = hand_policy(f"learn.c_clip_ratio={c}")
    batch = {key: hand_batch()[key][:2, :1] for key in ("obs", "action", "reward")}
    batch |= {"logit": torch.tensor([[[0.0, LN(3)]]] * 2), "last_obs": torch.eye(10)[4:5]}
    batch |= {key: torch.zeros(2, 1, dtype=torch.bool) for key in ("done", "traj_flag")}
    _, output = policy.loss(batch)
    assert output["value_loss"].item() == pytest.approx(((1.5 + c * 0.5 / 4) ** 2 + 0.5**2) / 2, rel=1e-5)


def test_sequences_need_not_be_a_multiple_of_the_environments_if_their_steps_are() -> None:
    policy = make_actor("impala", "unroll_len=4", "collect.n_sample=6")
    assert policy.current_config.collect.n_sample == 6  # 24 env steps: 3 of each environment
