"""What the actor-critics share: networks of their own, targets, state, actions within -1..1, config."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from ding_lite.utils.registry import ConfigError
from tests.policy.continuous.helpers import KINDS, OBS, ONLINE, D, losses, make_batch, make_qac, with_noise
from tests.policy.helpers import parameter_hash, same

EXTRA = {
    "cql": ("learn.num_actions=2", "learn.with_lagrange=True", "learn.lagrange_thresh=5.0", "learn.init_w=0.25"),
    "iql": ("learn.init_w=0.25",),
    "td3_bc": (),
    "sac": ("learn.init_w=0.25",),
    "ddpg": ("collect.noise_type=ou",),
    "td3": (),
    "d4pg": (),
}
ALL = (*KINDS, *ONLINE)
KNOWN = {
    "adv": torch.zeros(8),
    "next_value": torch.zeros(8),
    "log_prob": torch.zeros(8),
    "conservative_gap": torch.ones(2),
}


def learn(policy: Any, steps: range) -> None:
    for step in steps:
        torch.manual_seed(step)
        policy.learn(make_batch(8, step))


@pytest.mark.parametrize("kind", ALL)
def test_the_gradient_of_a_loss_reaches_its_own_network_alone(kind: str) -> None:
    policy = make_qac(kind, *EXTRA[kind])
    optimizers = policy._optimizers
    assert set(optimizers) >= {"critic", "actor"}
    batch = with_noise(policy, make_batch(8)) | KNOWN
    for name in optimizers:
        for optimizer in optimizers.values():
            optimizer.flat.zero_grad()
        losses(policy, batch)[name][0].backward()
        touched = {other for other, optimizer in optimizers.items() if optimizer.flat.gradient.any()}
        assert touched == {name}
        assert all(parameter.requires_grad for parameter in policy.model.parameters())
        assert all(target.grad is None or not target.grad.any() for target in policy._target_critic.parameters())


@pytest.mark.parametrize("kind", ALL)
def test_losses_write_nothing_and_are_functions_of_the_batch(kind: str) -> None:
    policy = make_qac(kind, *EXTRA[kind])
    batch = with_noise(policy, make_batch(8)) | KNOWN
    before = copy.deepcopy(batch)
    first, second = losses(policy, batch), losses(policy, batch)
    assert {name: loss.item() for name, (loss, _) in first.items()} == {
        name: loss.item() for name, (loss, _) in second.items()
    }
    assert all(torch.equal(batch[key], before[key]) for key in batch if key != "noise")
    assert all(torch.equal(batch["noise"][key], before["noise"][key]) for key in batch["noise"])
    assert not any(figure.requires_grad for _, figures in first.values() for figure in figures.values())


@pytest.mark.parametrize("kind", ALL)
def test_learning_goes_on_from_a_state_as_if_it_had_not_stopped(kind: str) -> None:
    whole, before, after = (make_qac(kind, *EXTRA[kind]) for _ in range(3))
    for policy in (before, after):
        policy.load_state_dict({"model": whole.state_dict()["model"]})
    learn(whole, range(6))
    learn(before, range(3))
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    learn(after, range(3, 6))
    assert parameter_hash(after.model) == parameter_hash(whole.model) != parameter_hash(before.model)
    assert parameter_hash(after._target_critic) == parameter_hash(whole._target_critic)
    assert after.checksum() == whole.checksum() != before.checksum()


@pytest.mark.parametrize("kind", ALL)
def test_a_model_alone_starts_a_new_run_whose_targets_are_the_model(kind: str) -> None:
    old, new = make_qac(kind, *EXTRA[kind]), make_qac(kind, *EXTRA[kind])
    learn(old, range(3))
    new.load_state_dict({"model": old.state_dict()["model"]})
    assert parameter_hash(new.model) == parameter_hash(old.model)
    assert parameter_hash(new._target_critic) == parameter_hash(new.model.critic)
    assert parameter_hash(old._target_critic) != parameter_hash(old.model.critic)


@pytest.mark.parametrize("kind", ALL)
def test_the_target_takes_over_its_share_of_the_critic(kind: str) -> None:
    policy = make_qac(kind, "learn.target_theta=0.25", *EXTRA[kind])
    steps = 2 if kind in ("td3", "td3_bc") else 1  # until the target moves
    before = [parameter.clone() for parameter in policy._target_critic.parameters()]
    learn(policy, range(steps))
    pairs = zip(before, policy.model.critic.parameters(), strict=True)
    expected = [torch.lerp(old, new, 0.25) for old, new in pairs]
    assert same(list(policy._target_critic.parameters()), expected)


@pytest.mark.parametrize("kind", ALL)
def test_it_acts_within_bounds_explores_when_it_collects_and_repeats_itself_when_it_evaluates(kind: str) -> None:
    policy = make_qac(kind, *EXTRA[kind])
    with torch.no_grad():
        for parameter in policy.model.actor.parameters():
            parameter *= 3
    obs = (torch.randn(200, OBS) * 3).numpy()
    best, again = (policy.act(obs, explore=False)["action"] for _ in range(2))
    assert torch.equal(best, again)
    played = policy.act(obs)["action"]
    assert best.shape == played.shape == (200, D)
    assert 0.5 < best.abs().max() <= 1
    assert played.abs().max() <= 1
    assert (played != best).float().mean() > 0.5


@pytest.mark.parametrize("kind", ALL)
def test_recorded_actions_are_clipped_and_ignored_ends_are_none(kind: str) -> None:
    policy = make_qac(kind, "learn.ignore_done=True")
    batch = make_batch(8) | {"action": torch.tensor([1.5, -0.5] * 8).view(8, 2), "done": torch.ones(8).bool()}
    ready = policy._prepare(batch)
    assert ready["action"].tolist() == [[1.0, -0.5]] * 8
    assert not ready["done"].any()
    assert batch["done"].all()
    one = policy._prepare(make_batch(8) | {"action": torch.zeros(8)})  # one dimension, recorded without it
    assert one["action"].shape == (8, 1)


@pytest.mark.parametrize("kind", ALL)
def test_every_figure_that_is_watched_is_there(kind: str) -> None:
    policy = make_qac(kind, *EXTRA[kind])
    learn(policy, range(1))
    output = policy.learn(make_batch(8))
    assert set(policy.monitor_vars()) <= set(output)
    assert all(value.isfinite().all() for value in output.values())


@pytest.mark.parametrize(
    ("kind", "override", "message"),
    [
        ("td3_bc", "model.action_space='reparameterization'", "action_space must be 'regression'"),
        ("iql", "model.action_space='regression'", "action_space must be 'reparameterization'"),
        ("td3", "model.action_space='reparameterization'", "action_space must be 'regression'"),
        ("sac", "learn.alpha=0", "alpha: expected a number above 0"),
        ("ddpg", "collect.noise_type=uniform", "noise_type must be 'gauss' or 'ou', got 'uniform'"),
        ("ddpg", "learn.noise_range.max=-1.0", "expected min <= max, got -0.5 and -1.0"),
        ("d4pg", "model.v_min=10.0", "v_min=10.0 must be smaller than policy.model.v_max=10.0"),
        ("d4pg", "model.n_atom=1", "n_atom: expected at least 2, got 1"),
        ("d4pg", "model.twin_critic=True", "Unknown key 'policy.model.twin_critic'"),
        ("cql", "learn.target_theta=0", "target_theta: expected a number above 0, at most 1, got 0"),
        ("td3_bc", "learn.actor_update_freq=0", "actor_update_freq: expected at least 1, got 0"),
        ("td3_bc", "learn.noise_range.min=1.0", "expected min <= max, got 1.0 and 0.5"),
        ("iql", "learn.tau=1.0", "tau: expected a number between 0 and 1, got 1.0"),
        ("iql", "learn.beta=-1.0", "learn.beta: expected at least 0"),
        ("cql", "learn.num_actions=0", "num_actions: expected at least 1"),
        ("cql", "learn.alpha=0", "alpha: expected a number above 0"),
        ("cql", "learn.with_lagrange=True", "needs a lagrange_thresh above 0, got -1.0"),
        ("iql", "learn.learning_rate=0.1", "Unknown key 'policy.learn.learning_rate'"),
    ],
)
def test_values_that_mean_nothing_are_errors(kind: str, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_qac(kind, override)


@pytest.mark.parametrize("kind", ALL)
def test_actions_that_a_data_set_holds_as_integers_are_learned_from_as_floats_are(kind: str) -> None:
    batch, outputs = make_batch(8), []
    for dtype in (torch.float32, torch.int64):
        torch.manual_seed(0)
        policy = make_qac(kind)
        outputs.append(policy.learn(batch | {"action": batch["action"].sign().to(dtype)}))
    assert outputs[0].keys() == outputs[1].keys()
    assert same(*(list(output.values()) for output in outputs))
