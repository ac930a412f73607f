"""PPO's loss by hand, its step, and what changes from collect to collect."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.utils.registry import POLICY_REGISTRY
from tests.policy.actors import Table, learn, make_actor, make_block
from tests.policy.helpers import parameter_hash

LN = math.log
# The policy that learns chooses action 0 with probability 3/4 in both states; the one that acted did so with 1/2.
NEW = [[LN(0.75), LN(0.25)]] * 2
ENTROPY = -0.75 * LN(0.75) - 0.25 * LN(0.25)
KL = 0.5 * LN(0.5 / 0.75) + 0.5 * LN(0.5 / 0.25)  # of the old and the new policy; here approx_kl is the same


def table_policy(*overrides: str, new: Any = NEW) -> Any:
    return make_actor("ppo", *overrides, model=Table(new, [1.0, -1.0]))


def table_batch(**more: Tensor) -> dict[str, Tensor]:
    """Action 0 in state 0 was good, action 1 in state 1 bad."""
    return {
        "obs": torch.eye(2),
        "action": torch.tensor([0, 1]),
        "logit": torch.zeros(2, 2),
        "adv": torch.tensor([2.0, -1.0]),
        "value": torch.tensor([0.5, -1.1]),
        "return_": torch.tensor([2.0, 1.0]),
        **more,
    }


# Ratios 1.5 and 0.5, both clipped: min(3, 1.2 * 2) = 2.4 and min(-0.5, 0.8 * -1) = -0.8.
POLICY_LOSS = -(2.4 - 0.8) / 2
# V is 1 and was 0.5: errors 1, clipped to 0.7 1.3^2 = 1.69, the larger. V is -1 and was -1.1: 2^2 = 4 either way.
VALUE_LOSS = {True: 0.5 * (1.69 + 4) / 2, False: 0.5 * (1 + 4) / 2}


@pytest.mark.parametrize("clip", [True, False])
def test_loss_by_hand(clip: bool) -> None:
    policy = table_policy(f"learn.value_clip={clip}", "learn.value_weight=0.5", "learn.entropy_weight=0.1")
    loss, output = policy.loss(table_batch())
    assert loss.item() == pytest.approx(POLICY_LOSS + 0.5 * VALUE_LOSS[clip] - 0.1 * ENTROPY, rel=1e-5)
    expected = {"policy_loss": POLICY_LOSS, "value_loss": VALUE_LOSS[clip], "entropy": ENTROPY}
    expected |= {"approx_kl": KL, "clipfrac": 1.0}
    assert {key: value.item() for key, value in output.items()} == pytest.approx(expected, rel=1e-5)
    assert not any(value.requires_grad for value in output.values())


def test_kl_beta_penalises_the_divergence_of_the_new_policy_from_the_old() -> None:
    old = torch.tensor([[0.0, LN(3)], [0.0, 0.0]])  # 1/4, 3/4 in state 0: KL = 1/4 ln 1/3 + 3/4 ln 3 = ln(3) / 2
    expected = (0.5 * LN(3) + KL) / 2
    free, without = table_policy().loss(table_batch(logit=old))
    loss, output = table_policy("learn.kl_beta=2.0").loss(table_batch(logit=old))
    assert output["kl"].item() == pytest.approx(expected, rel=1e-5)
    assert loss.item() - free.item() == pytest.approx(2 * expected, rel=1e-5)
    assert "kl" not in without  # nobody asked


def test_weights_enter_every_part() -> None:
    weight = torch.tensor([0.5, 1.5])
    loss, output = table_policy("learn.kl_beta=2.0", "learn.entropy_weight=0.1").loss(table_batch(weight=weight))
    policy_loss, value_loss = -(0.5 * 2.4 - 1.5 * 0.8) / 2, 0.5 * (0.5 * 1.69 + 1.5 * 4) / 2
    assert output["policy_loss"].item() == pytest.approx(policy_loss, abs=1e-6)
    assert output["value_loss"].item() == pytest.approx(value_loss, rel=1e-5)
    assert output["kl"].item() == pytest.approx(KL, rel=1e-5)
    assert loss.item() == pytest.approx(policy_loss + 0.5 * value_loss - 0.1 * ENTROPY + 2 * KL, rel=1e-5)
    # the KL and entropy alike in both states; where they are not, the weight tells
    old = torch.tensor([[LN(3), 0.0], [0.0, 0.0]])  # KL 0 in state 0
    _, output = table_policy("learn.kl_beta=2.0").loss(table_batch(weight=weight, logit=old))
    assert output["kl"].item() == pytest.approx(1.5 * KL / 2, rel=1e-5)


def test_dual_clip_bounds_what_a_bad_action_that_became_likely_costs() -> None:
    old = torch.tensor([[0.0, 0.0], [LN(19), 0.0]])  # 1/20 for action 1 in state 1: ratio 5
    for overrides, second in ([], -5.0), (["learn.dual_clip=3.0"], -3.0):
        _, output = table_policy(*overrides).loss(table_batch(logit=old))
        assert output["policy_loss"].item() == pytest.approx(-(2.4 + second) / 2, rel=1e-5)


# -- the step ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [True, False])
def test_the_policy_begins_near_uniform_unless_the_config_says_not_to(init: bool) -> None:
    logit = make_actor("ppo", f"learn.ppo_param_init={init}").model(torch.randn(100, 5))["logit"]
    assert ((logit.softmax(-1) - 1 / 3).abs().max() < 0.03) == init


# -- from collect to collect ------------------------------------------------------------------------------------------


def test_learning_rate_and_clip_fall_with_the_collects() -> None:
    # ratios 1.5 and 0.5: within a clip of 0.8, that falls to a half of it within two collects
    policy = table_policy(
        "learn.learning_rate=1e-9", "learn.lr_scheduler={'epoch_num': 4, 'min_lr_lambda': 0.2}",
        "learn.clip_ratio=0.8", "learn.clip_scheduler={'epoch_num': 2, 'min_clip_lambda': 0.5}",
        "learn.epoch_per_collect=1", "learn.batch_size=64", "learn.value_norm=False",
    )  # fmt: skip
    block = {
        **{key: torch.zeros(2, 1) for key in ("value", "reward")},
        **{key: torch.zeros(2, 1, dtype=torch.bool) for key in ("done", "traj_flag")},
        "obs": torch.eye(2)[:, None], "action": torch.tensor([[0], [1]]), "logit": torch.zeros(2, 1, 2),
        "last_obs": torch.eye(2)[:1],
    }  # fmt: skip
    outputs = [learn(policy, block) for _ in range(6)]
    assert {len(output) for output in outputs} == {1}
    # 1 - 0.8 * collects / 4, then constant
    rates = [output[0]["learning_rate"].item() for output in outputs]
    assert rates == pytest.approx([1e-9 * share for share in (1, 0.8, 0.6, 0.4, 0.2, 0.2)], rel=1e-4)
    # clip 0.8, 0.6, then 0.4, which both ratios are beyond
    assert [output[0]["clipfrac"].item() for output in outputs] == [0, 0, 1, 1, 1, 1]


EAGER = ("learn.learning_rate=0.05", "learn.epoch_per_collect=6", "learn.batch_size=8")  # 6 epochs of 4 minibatches


def test_kl_early_stop_ends_a_collects_updates() -> None:
    policy = make_actor("ppo", *EAGER, "learn.target_kl=0.02", "learn.kl_early_stop=True")
    assert collect_with(policy, [0.01, 0.0299, 0.0301, 0.0]) == 3
    for _ in range(2):  # the next collect begins anew
        kl = [output["kl"].item() for output in learn(policy, make_block(policy))]
        assert 1 <= len(kl) < 24
        assert kl[-1] > 1.5 * 0.02
        assert all(value <= 1.5 * 0.02 for value in kl[:-1])
    policy = make_actor("ppo", *EAGER, "learn.target_kl=1e6", "learn.kl_early_stop=True")
    assert len(learn(policy, make_block(policy))) == 24


def collect_with(policy: Any, kl: list[float]) -> int:
    """Pretend that the updates of a collect had these KLs; return how many there were."""
    count = 0
    for count, _ in enumerate(policy.batches(make_block(policy)), 1):
        policy._penalty.add({"kl": torch.tensor(kl[count - 1])})
    return count


def test_an_earlier_collects_kl_does_not_count() -> None:
    policy = make_actor(
        "ppo", "learn.epoch_per_collect=2", "learn.batch_size=16", "learn.kl_adaptive=True", "learn.target_kl=1.0",
        "learn.kl_beta=0.5",
    )  # fmt: skip
    assert collect_with(policy, [9.0] * 4) == 4
    assert policy._penalty.beta == 1.0
    collect_with(policy, [9.0, 9.0, 0.1, 0.1])  # of the last epoch's two; of four it would be far above
    assert policy._penalty.beta == 0.5


# -- initial weights --------------------------------------------------------------------------------------------------


def test_it_starts_from_the_same_weights_without_the_learn_mode() -> None:
    cfg, hashes = make_actor("ppo").current_config, set()
    for fields in (("learn", "collect", "eval"), ("collect", "eval")):
        torch.manual_seed(0)
        hashes.add(parameter_hash(POLICY_REGISTRY.find("ppo")(cfg, None, fields).model))
    assert len(hashes) == 1
