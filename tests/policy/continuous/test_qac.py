"""What the actor-critics share: networks of their own, targets, state, actions within -1..1, config."""

from __future__ import annotations

import pytest
import torch

from tests.algorithms import ALGORITHMS
from tests.policy.continuous.helpers import OBS, D, losses, make_batch, make_qac, with_noise
from tests.policy.helpers import same

SMALL = {name: each.small.split() for name, each in ALGORITHMS.items() if each.small is not None}
KNOWN = {
    "adv": torch.zeros(8),
    "next_value": torch.zeros(8),
    "log_prob": torch.zeros(8),
    "conservative_gap": torch.ones(2),
}


@pytest.mark.parametrize("kind", SMALL)
def test_the_gradient_of_a_loss_reaches_its_own_network_alone(kind: str) -> None:
    policy = make_qac(kind, *SMALL[kind])
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


@pytest.mark.parametrize("kind", SMALL)
def test_it_acts_within_bounds_and_explores_in_collects_alone(kind: str) -> None:
    policy = make_qac(kind, *SMALL[kind])
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


@pytest.mark.parametrize("kind", SMALL)
def test_recorded_actions_are_clipped_and_ignored_ends_are_none(kind: str) -> None:
    policy = make_qac(kind, "learn.ignore_done=True")
    batch = make_batch(8) | {"action": torch.tensor([1.5, -0.5] * 8).view(8, 2), "done": torch.ones(8).bool()}
    ready = policy._prepare(batch)
    assert ready["action"].tolist() == [[1.0, -0.5]] * 8
    assert not ready["done"].any()
    assert batch["done"].all()
    one = policy._prepare(make_batch(8) | {"action": torch.zeros(8)})  # one dimension, recorded without it
    assert one["action"].shape == (8, 1)


@pytest.mark.parametrize("kind", SMALL)
def test_actions_that_a_data_set_holds_as_integers_are_learned_from_as_floats_are(kind: str) -> None:
    batch, outputs = make_batch(8), []
    for dtype in (torch.float32, torch.int64):
        torch.manual_seed(0)
        policy = make_qac(kind)
        outputs.append(policy.learn(batch | {"action": batch["action"].sign().to(dtype)}))
    assert outputs[0].keys() == outputs[1].keys()
    assert same(*(list(output.values()) for output in outputs))
