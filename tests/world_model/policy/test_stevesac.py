"""STEVE: returns after each number of imagined steps, and their weights, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.world_model.policy import stevesac
from ding_lite.world_model.policy.stevesac import mix_horizons
from tests.world_model.policy.test_mbsac import ALPHA, GAMMA, policy_and_batch, state_values


def test_horizons_at_which_members_disagree_count_less() -> None:
    """Returns 1 and 3 have the variance 1, 2 and 6 the variance 4: weights 4/5 and 1/5 of the means 2 and 4."""
    return_JEB = torch.tensor([[[1.0], [3.0]], [[2.0], [6.0]]], requires_grad=True)
    mixed = mix_horizons(return_JEB)
    torch.testing.assert_close(mixed, torch.tensor([0.8 * 2 + 0.2 * 4]))
    mixed.sum().backward()
    assert return_JEB.grad is not None
    assert return_JEB.grad.flatten().tolist() == pytest.approx([0.4, 0.4, 0.1, 0.1])  # none through the weights
    random = np.random.default_rng(0).normal(size=(4, 5, 3))
    precision = 1 / random.var(1)
    expected = (precision / precision.sum(0) * random.mean(1)).sum(0)
    np.testing.assert_allclose(mix_horizons(torch.from_numpy(random)).numpy(), expected, rtol=1e-6)


def test_returns_of_each_member_and_horizon_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Member e predicts the reward e; the first sample stays at s' for ever, the second ends with its first step."""
    seen: list[Tensor] = []

    def watch(return_JEB: Tensor) -> Tensor:
        seen.append(return_JEB)
        return mix_horizons(return_JEB)

    policy, batch = policy_and_batch(kind="stevesac")
    monkeypatch.setattr(stevesac, "mix_horizons", watch)
    path = policy.expansion.find_path(policy, batch)
    (v, beyond), (entropy, entropy_beyond) = (part.tolist() for part in state_values(policy, batch["next_obs"]))
    for e, reward in enumerate((1.0, 2.0, 3.0)):
        gain = reward - entropy
        expected = [5 + GAMMA * v, 5 + GAMMA * gain + GAMMA**2 * v, 5 + (GAMMA + GAMMA**2) * gain + GAMMA**3 * v]
        assert seen[0][:, e, 0].tolist() == pytest.approx(expected, rel=1e-5)
        ended = 7 + GAMMA * (reward - entropy_beyond)
        assert seen[0][:, e, 1].tolist() == pytest.approx([7 + GAMMA * beyond, ended, ended], rel=1e-5)
    # Without noise the members agree about the first horizon, whose variance is 0: it alone counts.
    assert path.target[0].tolist() == pytest.approx([5 + GAMMA * v, 7 + GAMMA * beyond], rel=1e-4)
    assert path.log_prob[0].item() == pytest.approx(entropy / ALPHA, rel=1e-4)


def test_a_real_terminal_step_has_no_value_after_it() -> None:
    policy, batch = policy_and_batch(kind="stevesac")
    batch["done"] = torch.tensor([True, True])
    assert policy.expansion.find_path(policy, batch).target[0].tolist() == pytest.approx([5.0, 7.0])


def test_each_member_draws_actions_of_its_own() -> None:
    policy, batch = policy_and_batch(kind="stevesac")
    noise = policy._draw_noise(batch)["actor"]
    assert noise.shape == (2, 3, 3, 1)  # samples, horizons, members, dimensions
    assert len(noise.unique()) == noise.numel()
