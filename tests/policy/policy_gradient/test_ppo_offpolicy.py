"""PPO from a replay buffer: what is stored after a collect, what is normalised when learning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor

from ding_lite.torch_utils.normalizer import Normalizer
from tests.policy.actors import ADV, HALVES, RETURN, hand_block, hand_model, make_actor


def hand_policy(*overrides: str) -> Any:
    return make_actor("ppo_offpolicy", *HALVES, *overrides, model=hand_model())


def samples_of(policy: Any) -> dict[str, Tensor]:
    policy.begin_collect(0)
    block = hand_block()
    return policy.to_samples(block | {"value": policy._value_stats.denormalize(block["value"])})  # as the policy acts


@pytest.mark.parametrize("value_norm", [True, False])
def test_advantages_and_returns_are_stored_with_the_block(value_norm: bool) -> None:
    block, samples = hand_block(), samples_of(hand_policy(f"learn.value_norm={value_norm}"))
    assert samples["adv"].flatten().tolist() == pytest.approx(ADV)  # before any learning the units are plain
    assert samples["return_"].flatten().tolist() == pytest.approx(RETURN)
    assert samples.keys() == block.keys() | {"adv", "return_"}
    assert all(torch.equal(samples[key], block[key]) for key in block)


def test_without_normalisation_values_are_those_with_which_the_policy_acted() -> None:
    block = hand_block()
    block["value"] = block["value"] + 1  # the model has learned since
    assert torch.equal(hand_policy("learn.value_norm=False").to_samples(block)["value"], block["value"])


def test_values_are_those_of_normalised_numbers_and_true_ones_are_stored() -> None:
    policy, plain = (hand_policy("learn.value_norm=False") for _ in range(2))
    block = hand_block() | {"reward": torch.arange(0.0, 600.0, 100.0).view(3, 2)}
    policy.normalizer = Normalizer(Box(-1, 1, (10,)), reward_discount=0.5)
    samples = policy.to_samples(block)
    normal = policy.normalizer.normalize(block)
    normal["value"] = plain.model(normal["obs"])["value"].detach()
    expected = plain.to_samples(normal)
    for key in ("value", "adv", "return_"):
        torch.testing.assert_close(samples[key], expected[key])
    assert samples["return_"].abs().max() < 50  # rewards reach 500
    assert all(torch.equal(samples[key], block[key]) for key in block if key != "value")


def random_batch(seed: int = 0, returns: tuple[float, ...] = (3.0, 5.0, 10.0)) -> dict[str, Tensor]:
    """Return what the buffer would, of the hand block's states."""
    gen = torch.Generator().manual_seed(seed)
    size = len(returns)
    return {
        "obs": torch.eye(10)[:size],
        "action": torch.zeros(size, dtype=torch.int64),
        "logit": torch.zeros(size, 2),
        "value": torch.arange(1.0, size + 1),
        "adv": torch.randn(size, generator=gen),
        "return_": torch.tensor(returns),
    }


def test_value_norm_learns_returns_in_the_units_of_all_learned_from() -> None:
    # the value clip off, the value loss is half the mean squared error of V = 1, 2, 3
    policy = hand_policy("learn.value_norm=True", "learn.value_clip=False", "learn.learning_rate=0.0")
    seen: list[float] = []
    for returns in ((3.0, 5.0, 10.0), (0.0, 0.0, 30.0)):
        seen += returns
        output = policy.learn(random_batch(returns=returns))
        target = (np.array(returns) - np.mean(seen)) / np.std(seen)
        assert output["value_loss"].item() == pytest.approx(0.5 * np.mean((target - [1, 2, 3]) ** 2), rel=1e-5)
    # and what it says in the next collect is in these units: V = s + 1 is (s + 1) std + mean
    value, next_value = (np.array(v) * np.std(seen) + np.mean(seen) for v in ([5.0, 6.0], [7.0, 8.0]))
    samples = samples_of(policy)
    expected = 1 + next_value / 2 - value  # the last row of both environments
    assert samples["adv"][2].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert samples["return_"][2].tolist() == pytest.approx((expected + value).tolist(), rel=1e-5)


def test_values_are_stored_in_units_of_rewards_and_clipped_in_the_models_newest() -> None:
    policy = hand_policy("learn.value_norm=True", "learn.value_clip=True", "learn.learning_rate=0.0")
    seen = [0.0, 0.0, 30.0]
    policy.learn(random_batch(returns=(0.0, 0.0, 30.0)))
    stored = [v * np.std(seen) + np.mean(seen) for v in range(1, 7)]  # V = 1 ... 6 in the model's units
    assert samples_of(policy)["value"].flatten().tolist() == pytest.approx(stored, rel=1e-5)
    returns = (900.0, -900.0, 5.0)  # the model's units change
    output = policy.learn(random_batch(returns=returns) | {"value": torch.tensor(stored[:3])})
    seen += returns
    target, old = ((np.array(x) - np.mean(seen)) / np.std(seen) for x in (returns, stored[:3]))
    new = np.array([1, 2, 3])
    error = np.maximum((target - new) ** 2, (target - new.clip(old - 0.2, old + 0.2)) ** 2)
    assert output["value_loss"].item() == pytest.approx(0.5 * error.mean(), rel=1e-4)


def test_adv_norm_is_of_each_batch() -> None:
    ratios_differ = {"logit": torch.tensor([[0.0, 1.0]] * 2 + [[0.0, 0.0]])}  # so that a mean of 0 shows
    adv, losses = torch.tensor([1.0, 2.0, 6.0]), []
    for norm, given in ((True, adv), (False, (adv - adv.mean()) / adv.std())):
        policy = hand_policy(f"learn.adv_norm={norm}", "learn.clip_ratio=9.0")
        losses.append(policy.learn(random_batch() | ratios_differ | {"adv": given})["policy_loss"].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) != 0.0
