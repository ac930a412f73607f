"""What PPO makes of a collect: values, advantages, targets, minibatches; the numbers of `actors.hand_block`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy.checkpointed import load_to_act, state_to_act
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.actors import ADV, HALVES, RETURN, by_state, hand_block, hand_model, learn, make_actor
from tests.policy.actors import make_block as random_block
from tests.policy.helpers import batches_of, compile_for

RAW = ("learn.adv_norm=False", "learn.value_norm=False")


def hand_policy(*overrides: str, kind: str = "ppo", epochs: int = 1) -> Any:
    return make_actor(kind, *HALVES, f"learn.epoch_per_collect={epochs}", *overrides, model=hand_model())


@pytest.mark.parametrize("final", [9, 5])  # a terminal state's observation does not count
@pytest.mark.parametrize("batch_size", [6, 2])
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_advantages_and_returns_by_hand(kind: str, batch_size: int, final: int) -> None:
    own = [*RAW, "learn.epoch_per_collect=1"] if kind == "ppo" else []
    policy = make_actor(kind, *HALVES, *own, f"learn.batch_size={batch_size}", model=hand_model())
    batches = list(policy.batches(hand_block() | {"final_obs": torch.eye(10)[[final, 8]]}))
    assert by_state(batches, "adv") == pytest.approx(ADV)
    assert by_state(batches, "return_") == pytest.approx(RETURN)
    if kind == "ppo":
        assert by_state(batches, "value") == [1, 2, 3, 4, 5, 6]


def test_ignore_done_bootstraps_at_terminal_states_by_their_own_observation() -> None:
    policy = hand_policy(*RAW, "learn.ignore_done=True", "learn.batch_size=6")
    block = hand_block()
    for t in range(3):  # as the collector would write it
        timestep: Any = type("Timestep", (), {key: block[key][t].numpy() for key in ("reward", "done", "traj_flag")})
        row = policy.to_row(block["obs"][t], {key: block[key][t] for key in ("action", "logit", "value")}, timestep)
        block["done"][t] = torch.from_numpy(row["done"])
        assert row["traj_flag"] is timestep.traj_flag
    (batch,) = policy.batches(block)
    # state 1: delta = 1 + V(9) / 2 - V = 1 + 5 - 2 = 4, and the sum is still cut there
    assert by_state([batch], "adv") == pytest.approx([2.125, 4.0, 2.5, -0.25, -0.5, -1.0])


# -- normalisation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [6, 3])
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_each_minibatchs_advantages_have_mean_0_and_deviation_1(kind: str, batch_size: int) -> None:
    own = ["learn.value_norm=False", "learn.epoch_per_collect=1"] if kind == "ppo" else ["learn.adv_norm=True"]
    policy = make_actor(kind, *HALVES, *own, f"learn.batch_size={batch_size}", model=hand_model())
    batches = list(policy.batches(hand_block()))
    assert len(batches) == 6 // batch_size
    for batch in batches:
        raw = np.array([ADV[state] for state in batch["obs"].argmax(-1).tolist()])
        expected = (raw - raw.mean()) / raw.std(ddof=1)
        assert batch["adv"].tolist() == pytest.approx(expected.tolist(), rel=1e-4)
        returns = [RETURN[state] for state in batch["obs"].argmax(-1).tolist()]
        assert batch["return_"].tolist() == pytest.approx(returns)  # these are not


def by_gae(value: np.ndarray, next_value: np.ndarray) -> np.ndarray:
    """Advantages of the hand block for other values `[6]`, by state: gamma = lambda = 1/2, r = 1."""
    delta = 1 + next_value * np.array([1, 0, 1, 1, 1, 1]) / 2 - value
    adv = delta.copy()
    adv[3] += adv[5] / 4
    adv[0] += adv[2] / 4
    return adv


VALUE = np.arange(1.0, 7.0)
NEXT_VALUE = np.array([3.0, 10, 9, 6, 7, 8])


def test_value_norm_learns_returns_in_units_of_their_running_deviation() -> None:
    policy = hand_policy("learn.adv_norm=False", "learn.value_norm=True", "learn.batch_size=6")
    stats = policy._value_stats
    (batch,) = policy.batches(hand_block())
    # the model has not learned any units yet: its values count as they are
    assert by_state([batch], "adv") == pytest.approx(ADV)
    first = np.array(RETURN)
    assert (stats.mean.item(), stats.var.item(), stats.count.item()) == pytest.approx((first.mean(), first.var(), 6))
    assert by_state([batch], "return_") == pytest.approx(((first - first.mean()) / first.std()).tolist(), rel=1e-5)
    assert by_state([batch], "value") == VALUE.tolist()  # what the clip compares: the model's own output
    # in the next collect, what the model says is in these units, and what it stores in those of rewards
    (batch,) = policy.batches(hand_block() | {"value": stats.denormalize(hand_block()["value"])})
    value, next_value = (part * first.std() + first.mean() for part in (VALUE, NEXT_VALUE))
    adv = by_gae(value, next_value)
    assert by_state([batch], "adv") == pytest.approx(adv.tolist(), rel=1e-5)
    joined = np.concatenate([first, adv + value])
    assert (stats.mean.item(), stats.var.item(), stats.count.item()) == pytest.approx((joined.mean(), joined.var(), 12))
    expected = (adv + value - joined.mean()) / joined.std()
    assert by_state([batch], "return_") == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("name", ["ppo", "ppo_offpolicy", "happo"])
def test_a_copy_that_acts_stores_values_in_units_of_rewards(name: str) -> None:
    cfg = compile_for(name, "policy.learn.adv_norm=False")
    policy: Any = parity.create_policy(cfg)
    block = parity.collect_block(cfg)
    policy_cls: Any = POLICY_REGISTRY.find(name)
    actor = policy_cls(cfg.policy, copy.deepcopy(policy.model), enable_field=("collect",))

    def learn_from(reward: Tensor) -> None:
        for batch in batches_of(policy, cfg, block | {"reward": reward}):
            policy.learn(batch)

    learn_from(block["reward"] * 7.0 + 20.0)
    load_to_act(actor, copy.deepcopy(state_to_act(policy)))
    obs = tree_map(lambda leaf: leaf[0], block["obs"])
    played = actor.act(obs)["value"]
    with torch.no_grad():
        said = policy.model(policy._to_device(obs), mode="compute_critic")["value"]
    mean, std = policy._value_stats.mean, policy._value_stats.std
    torch.testing.assert_close(played, said * std + mean)
    assert mean > 20.0
    learn_from(block["reward"] * 300.0)
    assert policy._value_stats.std > 2.0 * std
    late = policy._to_device(block | {"value": played.expand_as(block["value"])})  # played before the learner went on
    found = policy.to_samples(late) if name == "ppo_offpolicy" else policy._targets(late, 0)
    adv, ended = found["adv"].flatten(), late["done"].flatten()
    expected = (late["reward"] - late["value"]).flatten()  # of a step that nothing follows
    torch.testing.assert_close(adv[ended], expected[ended].to(adv))


class Line(nn.Module):
    """Values that are linear in the observations; two actions that are always equally likely."""

    def __init__(self) -> None:
        super().__init__()
        self.value_layer = nn.Linear(1, 1)

    def forward(self, obs: Tensor, mode: str = "compute_actor_critic") -> dict[str, Tensor]:
        return {"logit": torch.zeros(*obs.shape[:-1], 2), "value": self.value_layer(obs).squeeze(-1)}


def test_values_approach_returns_that_grow_and_do_not_pass_them() -> None:
    # All rewards are -1 and every episode is cut after five steps: the value of the only state is -1 / (1 - 0.99).
    # The returns of a collect contain the values of that state, so they grow from collect to collect.
    words = ["discount_factor=0.99", "learn.value_norm=True", "learn.batch_size=20", "learn.epoch_per_collect=10"]
    policy = make_actor("ppo", *words, "learn.learning_rate=0.05", model=Line())
    flag, cut = torch.zeros(5, 4, dtype=torch.bool), (torch.arange(5) == 4).unsqueeze(1).expand(5, 4)
    block = dict(obs=torch.ones(5, 4, 1), action=torch.zeros(5, 4, dtype=torch.int64), reward=-torch.ones(5, 4))
    block |= dict(done=flag, traj_flag=cut, last_obs=torch.ones(4, 1), final_obs=torch.ones(4, 1))
    block |= dict(final_index=torch.arange(16, 20))
    values = []
    for _ in range(60):
        with torch.no_grad():
            output = policy.model(block["obs"])
        values.append(policy._value_stats.denormalize(output["value"]).mean().item())
        learn(policy, block | output)
    assert min(values) > -101
    assert values[-1] == pytest.approx(-100, abs=1)


def test_statistics_are_merged_once_a_collect_whatever_the_epochs() -> None:
    policy = hand_policy("learn.value_norm=True", "learn.batch_size=3", epochs=4)
    for collects in (1, 2, 3):
        assert len(learn(policy, hand_block())) == 8
        assert policy._value_stats.count.item() == 6 * collects


# -- epochs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recompute", [True, False])
def test_recompute_adv_estimates_values_and_advantages_anew_at_each_epoch(recompute: bool) -> None:
    policy = hand_policy(*RAW, "learn.batch_size=6", f"recompute_adv={recompute}", epochs=3)
    value, adv = VALUE, np.array(ADV)
    for epoch, batch in enumerate(policy.batches(hand_block())):
        assert by_state([batch], "value") == value.tolist()
        assert by_state([batch], "adv") == pytest.approx(adv.tolist())
        assert by_state([batch], "return_") == pytest.approx((adv + value).tolist())
        if epoch == 0:  # every value that the model says is 1 more from now on
            with torch.no_grad():
                policy.model.value.add_(1)
            value, adv = (VALUE + 1, by_gae(VALUE + 1, NEXT_VALUE + 1)) if recompute else (value, adv)
    assert epoch == 2


@pytest.mark.parametrize(
    ("batch_size", "sizes"),
    [(64, [32]), (32, [32]), (16, [16, 16]), (10, [11, 11, 10]), (12, [11, 11, 10]), (5, [6, 6, 5, 5, 5, 5])],
)
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_every_sample_is_used_once_an_epoch_in_nearly_equal_minibatches(
    kind: str, batch_size: int, sizes: list[int]
) -> None:
    # 32 samples in round(32 / batch_size) parts
    epochs = 3 if kind == "ppo" else 1
    more = [f"learn.epoch_per_collect={epochs}"] if kind == "ppo" else []
    policy = make_actor(kind, *more, f"learn.batch_size={batch_size}", space="hybrid")
    block = random_block(policy)
    batches = list(policy.batches(block))
    assert [len(batch["adv"]) for batch in batches] == sizes * epochs
    orders = []
    for epoch in range(epochs):
        parts = batches[epoch * len(sizes) : (epoch + 1) * len(sizes)]
        obs = torch.cat([batch["obs"] for batch in parts])
        place = (obs[:, None] == block["obs"].flatten(0, 1)).all(-1).float().argmax(-1)
        assert sorted(place.tolist()) == list(range(32))
        orders.append(place.tolist())
        args = torch.cat([batch["action"]["action_args"] for batch in parts])
        assert torch.equal(args, block["action"]["action_args"].flatten(0, 1)[place])  # and rows stay together
        assert not any("weight" in batch for batch in parts)  # one rank: all count alike
    assert len({tuple(order) for order in orders}) == epochs


# -- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value_norm", [True, False])
@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_the_explained_variance_is_that_of_the_values_that_were_collected(kind: str, value_norm: bool) -> None:
    more = [f"learn.value_norm={value_norm}", "learn.epoch_per_collect=2"] if kind == "ppo" else []
    policy = make_actor(kind, *HALVES, "learn.adv_norm=False", *more, model=hand_model())
    expected = 1 - np.var(ADV) / np.var(RETURN)  # R - V is the advantage
    outputs = learn(policy, hand_block())
    assert outputs
    assert [output["explained_variance"].item() for output in outputs] == pytest.approx([expected] * len(outputs))
