"""What all policies have in common that learn a distribution of returns by their own models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from ding_lite.utils.registry import POLICY_REGISTRY
from tests.policy.helpers import ACTIONS, IMAGE, OBS, make_batch, make_policy, parameter_hash

KINDS = ["qrdqn", "c51", "rainbow", "iqn", "fqf"]
DEFAULTS = {"qrdqn": (0.97, 1), "c51": (0.97, 1), "rainbow": (0.99, 3), "iqn": (0.97, 1), "fqf": (0.97, 1)}


def make(kind: str, *overrides: str, image: bool = False) -> Any:
    torch.manual_seed(0)
    return make_policy(*overrides, kind=kind, image=image)


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
def test_acting_draws_random_numbers_for_epsilon_alone(kind: str) -> None:
    policy, dqn = (make(name, "noisy_net=False") for name in (kind, "dqn"))
    obs, states = torch.randn(4, OBS).numpy(), []
    for each in (policy, dqn):
        torch.manual_seed(3)
        each.act(obs, eps=0.5)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_those_of_di_engine(kind: str) -> None:
    cfg = POLICY_REGISTRY.find(kind).default_config()
    assert (cfg.discount_factor, cfg.nstep) == DEFAULTS[kind]


def test_di_engines_unused_kappa_is_the_one_that_is_used() -> None:
    main = dict(policy=dict(kappa=0.5, model=dict(obs_shape=OBS, action_shape=ACTIONS)))
    cfg = compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qrdqn"))))
    assert cfg.policy.learn.kappa == 0.5
    assert cfg.notes == ["policy.kappa is policy.learn.kappa here."]
