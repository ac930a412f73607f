"""A learning rate that follows the KL divergence: rsl_rl's rule by hand, when a rate counts, and resuming."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.policy import create_policy
from ding_lite.utils import load_checkpoint, save_checkpoint
from tests.distributed import parity
from tests.policy.actors import Table, learn, make_block
from tests.policy.helpers import last_gradient, parameter_hash

RATE = 0.001
# pi_old is 1/2, 1/2 and pi_new 3/4, 1/4 in both states: KL(pi_old || pi_new) = (ln 2/3 + ln 2) / 2
KL = math.log(4 / 3) / 2
NEW = [[math.log(0.75), math.log(0.25)]] * 2


def make(*overrides: str, target: float = 1.0, kind: str = "ppo", model: Any = None) -> Any:
    network = {} if model else dict(obs_shape=5, action_shape=3, encoder_hidden_size_list=[16, 8])
    learning = dict(kl_learning_rate=True, target_kl=target, learning_rate=RATE, batch_size=4)
    main = dict(policy=dict(model=network, learn=learning, collect=dict(n_sample=64)))
    pair = (main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type=kind)))
    words = [f"policy.{item}" for item in overrides]
    torch.manual_seed(0)
    return create_policy(compile_config(pair, model_given=model is not None, overrides=words).policy, model)


def on_table(*overrides: str, target: float) -> Any:
    return make(*overrides, target=target, model=Table(NEW, [1.0, -1.0]))


def batch(*logit: float) -> dict[str, Any]:
    return {
        "obs": torch.eye(2),
        "action": torch.tensor([0, 1]),
        "logit": torch.tensor([list(logit)] * 2),
        **{key: torch.tensor([1.0, -1.0]) for key in ("adv", "value", "return_")},
    }


@pytest.mark.parametrize(
    ("share", "rate", "expected"),
    [
        (2.01, RATE, RATE / 1.5),
        (1.99, RATE, RATE),
        (0.51, RATE, RATE),
        (0.49, RATE, RATE * 1.5),
        (2.01, 1e-5, 1e-5),
        (2.01, 1.2e-5, 1e-5),
        (0.49, 9e-3, 1e-2),
    ],
)
def test_the_rule_by_hand(share: float, rate: float, expected: float) -> None:
    policy = on_table(f"learn.learning_rate={rate}", target=KL / share)
    output = policy.learn(batch(0.0, 0.0))
    assert output["kl"].item() == pytest.approx(KL, rel=1e-5)
    assert output["learning_rate"].item() == pytest.approx(expected, rel=1e-6)


def test_a_divergence_that_is_not_finite_changes_nothing() -> None:
    policy = on_table("learn.on_nonfinite=skip", target=KL)
    with pytest.warns(RuntimeWarning, match="kl is nan"):
        output = policy.learn(batch(math.nan, 0.0))
    assert output["learning_rate"].item() == pytest.approx(RATE)


def test_the_divergence_of_an_update_sets_the_rate_of_the_next_one() -> None:
    words = ("learn.optimizer=sgd", "learn.grad_clip_type=None", "learn.entropy_weight=1.0")
    policy, rates = on_table(*words, target=KL), []
    for logit in ((0.0, 0.0), (30.0, 0.0), (0.0, 0.0)):  # KLs of about KL, much more, and KL again
        before = torch.cat([p.detach().flatten() for p in policy.model.parameters()])
        policy.learn(batch(*logit))
        moved = before - torch.cat([p.detach().flatten() for p in policy.model.parameters()])
        rates.append((moved.norm() / last_gradient(policy).norm()).item())
    assert rates == pytest.approx([RATE, RATE, RATE / 1.5], rel=1e-3)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop", "sgd"])
def test_every_optimizer_follows_it_as_it_does_a_number(optimizer: str) -> None:
    follows = on_table(f"learn.optimizer={optimizer}", target=KL)  # KL stays within a factor of 2 of it
    fixed = on_table(f"learn.optimizer={optimizer}", target=KL)
    for group in fixed.optimizers[0].param_groups:
        group["lr"] = RATE
    fixed._optimizer._changing.clear()
    for policy in (follows, fixed):
        policy.learn(batch(0.0, 0.0))
    for ours, theirs in zip(follows.model.parameters(), fixed.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


def test_a_resumed_run_goes_on_with_its_rate_and_a_new_one_with_that_of_the_config(tmp_path: Path) -> None:
    policy = make(target=1e-4)
    block = make_block(policy)
    learn(policy, block)
    rate = policy.optimizers[0].param_groups[0]["lr"].item()
    assert rate < RATE / 2
    save_checkpoint(str(tmp_path / "state.pt"), copy.deepcopy(policy.state_dict()))
    state = load_checkpoint(str(tmp_path / "state.pt"))
    other, new = make(target=1e-4), make(target=1e-4)
    other.load_state_dict(state)
    new.load_state_dict({key: part for key, part in state.items() if key != "optimizer"})
    torch.manual_seed(1)
    outputs = learn(policy, block)
    torch.manual_seed(1)
    assert [figures["learning_rate"] for figures in learn(other, block)] == [each["learning_rate"] for each in outputs]
    assert parameter_hash(other.model) == parameter_hash(policy.model)
    assert new._rate.item() == pytest.approx(RATE)
    del state["kl_learning_rate"]  # of a run without the key
    new.load_state_dict(state)
    assert new._rate.item() == pytest.approx(RATE)


def test_updates_may_end_early_too() -> None:
    policy = make("learn.kl_early_stop=True", target=1e-4)
    assert len(learn(policy, make_block(policy))) < 80  # ten epochs of eight minibatches


@pytest.mark.parametrize("name", ["ppg", "ppo_stdim", "mappo"])
def test_variants_of_ppo_follow_it_where_their_loss_has_the_divergence(name: str) -> None:
    words = ["policy.learn.kl_learning_rate=True", "policy.learn.target_kl=1e-6", "policy.learn.batch_size=1000000"]
    words += ["policy.learn.aux_freq=1"] if name == "ppg" else []
    cfg = parity.compile_problem(name, "agents" if name == "mappo" else "discrete", words)
    policy: Any = parity.create_policy(cfg)
    rates, kls = [cfg.policy.learn.learning_rate], []
    for figures in learn(policy, policy.to_samples(parity.collect_block(cfg))):
        rates.append(figures["learning_rate"].item())
        kls.append(figures["kl"].item() if "kl" in figures else None)
    assert None in kls or name != "ppg"
    for kl, before, after in zip(kls, rates, rates[1:], strict=False):
        share = 1.0 if kl is None else 1.5 if kl < 0.5e-6 else 1 / 1.5 if kl > 2e-6 else 1.0
        assert after == pytest.approx(min(max(before * share, 1e-5), 1e-2), rel=1e-5)
    assert len(set(rates)) > 1
