"""What all policies have in common that learn a distribution of returns by their own models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ding_lite.config import compile_config
from tests.policy.helpers import ACTIONS, IMAGE, OBS, make_batch, make_policy, parameter_hash

KINDS = ["qrdqn", "c51", "rainbow", "iqn", "fqf"]


def make(kind: str, *overrides: str, image: bool = False) -> Any:
    torch.manual_seed(0)
    return make_policy(*overrides, kind=kind, image=image)


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_model_learns_and_plays_from_images(kind: str) -> None:
    policy = make(kind, "learn.target_update_freq=2", image=True)
    before = parameter_hash(policy.model)
    output = policy.learn(make_batch(8, weighed=True, image=True))
    assert parameter_hash(policy.model) != before
    assert (output["priority"] >= 0).all()
    played = policy.act(np.zeros((5, *IMAGE), np.uint8), explore=False)
    assert played["logit"].shape == (5, ACTIONS)
    assert torch.equal(played["action"], played["logit"].argmax(-1))


def test_di_engines_unused_kappa_is_the_one_that_is_used() -> None:
    main = dict(policy=dict(kappa=0.5, model=dict(obs_shape=OBS, action_shape=ACTIONS)))
    cfg = compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qrdqn"))))
    assert cfg.policy.learn.kappa == 0.5
    assert cfg.notes == ["policy.kappa is policy.learn.kappa here."]


def test_probabilities_are_drawn_evenly_for_each_sample_and_both_states() -> None:
    policy = make_policy("model.num_quantiles=50", kind="iqn")
    tau = policy._draw_noise(make_batch(400))["tau"]
    assert {name: each.shape for name, each in tau.items()} == {"online": (400, 50), "target": (400, 50)}
    assert not torch.equal(tau["online"], tau["target"])
    for each in tau.values():
        assert len(each.unique()) > 19_000  # of 20,000
        counts = torch.histc(each, 10, 0, 1)  # 2,000 each, standard deviation 42
        assert (counts - 2000).abs().max() < 250


def test_the_drawn_probabilities_change_the_loss_and_not_the_next_action() -> None:
    policy: Any = make_policy(kind="iqn")
    batch: dict[str, Any] = {**make_batch(8)}
    first, second = ({**batch, "noise": policy._draw_noise(batch)} for _ in range(2))
    assert policy.loss(first)[0] != policy.loss(second)[0]
    assert torch.equal(
        *(policy._outputs(each, {}, {"tau": each["noise"]["tau"]["target"]})[2] for each in (first, second))
    )
