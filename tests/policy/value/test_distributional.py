"""What all policies have in common that learn a distribution of returns by their own models."""

from __future__ import annotations

from typing import Any

import torch

from ding_lite.config import compile_config
from tests.policy.helpers import ACTIONS, OBS, make_batch, make_policy


def test_di_engines_unused_kappa_is_the_one_that_is_used() -> None:
    main = dict(policy=dict(kappa=0.5, model=dict(obs_shape=OBS, action_shape=ACTIONS)))
    cfg = compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="qrdqn"))))
    assert cfg.policy.learn.kappa == 0.5
    assert cfg.notes == ["policy.kappa is policy.learn.kappa here."]


def test_probabilities_are_drawn_evenly() -> None:
    tau = make_policy("model.num_quantiles=50", kind="iqn")._draw_noise(make_batch(400))["tau"]
    for each in tau.values():
        counts = torch.histc(each, 10, 0, 1)  # 2,000 each, standard deviation 42
        assert (counts - 2000).abs().max() < 250


def test_the_drawn_probabilities_change_the_loss_and_not_the_next_action() -> None:
    policy: Any = make_policy(kind="iqn")
    batch: dict[str, Any] = {**make_batch(8)}
    first, second = ({**batch, "noise": policy._draw_noise(batch)} for _ in range(2))
    assert policy.loss(first)[0] != policy.loss(second)[0]
    taus = (each["noise"]["tau"]["target"] for each in (first, second))
    assert torch.equal(*(policy._next_outputs(first, tau=tau)[1] for tau in taus))
