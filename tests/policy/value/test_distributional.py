"""What all policies have in common that learn a distribution of returns by their own models."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.policy.helpers import ACTIONS, IMAGE, OBS, make_batch, make_cfg, make_policy, parameter_hash, same, target_of

KINDS = ["qrdqn", "c51", "rainbow", "iqn", "fqf"]
WEIGHED = ("priority=True", "priority_IS_weight=True")
DEFAULTS = {"qrdqn": (0.97, 1), "c51": (0.97, 1), "rainbow": (0.99, 3), "iqn": (0.97, 1), "fqf": (0.97, 1)}


def make(kind: str, *overrides: str, image: bool = False) -> Any:
    torch.manual_seed(0)
    return make_policy(*overrides, kind=kind, image=image)


def batch_for(policy: Any, seed: int = 0, image: bool = False) -> dict[str, Any]:
    """Return a batch with importance weights, and the random numbers that the policy's loss needs."""
    torch.manual_seed(seed)
    batch: dict[str, Any] = {**make_batch(8, seed, weighed=True, image=image)}
    return {**batch, "noise": policy._draw_noise(batch)}


@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_its_own_model_learns_and_plays(kind: str, image: bool) -> None:
    policy = make(kind, "learn.target_update_freq=2", image=image)
    before = parameter_hash(policy.model)
    for step in range(3):
        output = policy.learn(make_batch(8, step, weighed=True, image=image))
    assert parameter_hash(policy.model) != before
    assert set(policy.monitor_vars()) - {"epsilon"} <= set(output)
    assert output["priority"].shape == (8,)
    assert (output["priority"] >= 0).all()
    assert not any(value.requires_grad for value in output.values())
    obs = np.zeros((5, *(IMAGE if image else [OBS])), np.uint8 if image else np.float64)
    played = policy.act(obs, explore=False)
    assert played["logit"].shape == (5, ACTIONS)
    assert torch.equal(played["action"], played["logit"].argmax(-1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_pure_and_leaves_the_batch_as_it_was(kind: str) -> None:
    policy = make(kind, "noisy_net=True")
    batch, state = batch_for(policy), parameter_hash(policy.model)
    before = copy.deepcopy(batch)
    first, second = (policy.loss(batch)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert parameter_hash(policy.model) == state
    assert batch.keys() == before.keys()
    assert all(torch.equal(batch[key], before[key]) for key in batch if key != "noise")
    other = {**batch, "noise": policy._draw_noise(batch)}
    assert policy.loss(other)[0] != first


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_mean_of_its_samples_by_their_weights(kind: str) -> None:
    policy = make(kind, *WEIGHED, "double=False")
    batch, weight = batch_for(policy), torch.arange(8.0)
    whole, rest, first, ones = (
        policy.loss(batch | {"weight": each})[0]
        for each in (weight, torch.where(weight > 3, weight, 0.0), torch.where(weight > 3, 0.0, weight), torch.ones(8))
    )
    torch.testing.assert_close(whole, rest + first)
    assert whole != rest
    torch.testing.assert_close(make(kind, "priority=False", "double=False").loss(batch)[0], ones)


@pytest.mark.parametrize("kind", KINDS)
def test_noisy_layers_explore_while_collecting_alone(kind: str) -> None:
    policy, obs = make(kind, "noisy_net=True"), torch.randn(4, OBS).numpy()
    assert policy.begin_collect(0) == {"eps": 0.0}
    noisy = [policy.act(obs)["logit"] for _ in range(2)]
    assert not torch.equal(*noisy)
    state = torch.get_rng_state()
    calm = [policy.act(obs, explore=False)["logit"] for _ in range(2)]
    assert torch.equal(*calm)
    assert torch.equal(torch.get_rng_state(), state)  # evaluating must not change what is learned


@pytest.mark.parametrize("kind", KINDS)
def test_acting_draws_random_numbers_for_epsilon_alone(kind: str) -> None:
    policy, dqn = (make(name, "noisy_net=False") for name in (kind, "dqn"))
    obs, states = torch.randn(4, OBS).numpy(), []
    for each in (policy, dqn):
        torch.manual_seed(3)
        each.act(obs, eps=0.5)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_policy_goes_on_as_the_saved_one(kind: str) -> None:
    policy, other = make(kind, "learn.target_update_freq=2"), make(kind, "learn.target_update_freq=2")
    for step in range(3):
        policy.learn(batch_for(policy, step))
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    for step in range(3, 6):
        for one in (policy, other):
            one.learn(batch_for(policy, step))
        assert parameter_hash(policy.model) == parameter_hash(other.model)
        assert parameter_hash(target_of(policy)) == parameter_hash(target_of(other))


@pytest.mark.parametrize("kind", KINDS)
def test_bf16_computes_coarsely_and_the_loss_in_float32(kind: str) -> None:
    losses = []
    for precision in ("float32", "bf16"):
        policy = make(kind, f"precision={precision}")
        losses.append(policy.loss(batch_for(policy))[0])
    assert {loss.dtype for loss in losses} == {torch.float32}
    assert losses[0] != losses[1]
    torch.testing.assert_close(*losses, rtol=0.03, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_network_follows_as_the_config_says(kind: str) -> None:
    policy = make(kind, "learn.target_update_freq=2")
    target = [value.clone() for value in target_of(policy).values()]
    policy.learn(batch_for(policy))
    assert same(list(target_of(policy).values()), target)
    policy.learn(batch_for(policy))
    assert parameter_hash(target_of(policy)) == parameter_hash(policy.model)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_those_of_di_engine(kind: str) -> None:
    cfg = POLICY_REGISTRY.find(kind).default_config()
    assert (cfg.discount_factor, cfg.nstep) == DEFAULTS[kind]


@pytest.mark.parametrize(
    ("kind", "override", "message"),
    [
        ("qrdqn", "model.num_quantiles=0", r"policy\.model\.num_quantiles: expected at least 1, got 0"),
        ("iqn", "model.num_quantiles=0", r"policy\.model\.num_quantiles: expected at least 1, got 0"),
        ("fqf", "model.num_quantiles=0", r"policy\.model\.num_quantiles: expected at least 1, got 0"),
        ("fqf", "learn.ent_coef=-1.0", r"policy\.learn\.ent_coef: expected at least 0"),
        ("rainbow", "model.noise=False", r"policy\.model\.noise contradicts policy\.noisy_net"),
        ("qrdqn", "learn.kappa=-1.0", r"policy\.learn\.kappa: expected at least 0"),
    ],
)
def test_values_that_cannot_be_are_refused(kind: str, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_cfg(override, kind=kind)


def test_di_engines_unused_kappa_is_the_one_that_is_used() -> None:
    main = dict(policy=dict(kappa=0.5, model=dict(obs_shape=OBS, action_shape=ACTIONS)))
    cfg = compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qrdqn"))))
    assert cfg.policy.learn.kappa == 0.5
    assert cfg.notes == ["policy.kappa is policy.learn.kappa here."]
