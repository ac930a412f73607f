"""R2D2: what it stores, errors worked out step by step, burn-in. tests/policy/test_sequences.py has the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.rl_utils.common import value_inv_transform, value_transform
from ding_lite.utils.registry import BUFFER_REGISTRY
from ding_lite.utils.tree import tree_map
from tests.policy.helpers import target_of
from tests.policy.test_sequences import build, collect, step_by_step

N, T, UNROLL = 3, 30, 5


def play(*overrides: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return config and policy, untrained, and a block of episodes of 2 to 8 steps, terminated or truncated.

    The policy's target network differs from the online one.
    """
    words = ["burnin_step=2", f"unroll_len={UNROLL}", "nstep=3", "discount_factor=0.9"]
    cfg, policy = build("r2d2", *(f"policy.{word}" for word in words), *overrides)
    for parameter in target_of(policy).values():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return cfg, policy, collect(cfg, policy, T, N)


def replay_of(cfg: Any, block: dict[str, Any], kind: str = "uniform") -> Any:
    keys = {key: cfg.policy[key] for key in ("unroll_len", "burnin_step", "nstep")}
    replay = BUFFER_REGISTRY.find(kind)(100, N, gamma=cfg.policy.discount_factor, **keys)
    replay.push(block)
    return replay


def to_double(leaf: Tensor) -> Tensor:
    return leaf.double() if leaf.is_floating_point() else leaf


def test_the_state_before_each_step_is_stored_and_begins_anew_with_each_episode() -> None:
    _, policy, block = play()
    for n in range(N):
        for t, (state, _, _) in enumerate(step_by_step(policy.model, block, n)):
            for name, column in block["prev_state"].items():
                expected = torch.zeros_like(column[t, n]) if state is None else state[name][0]
                torch.testing.assert_close(column[t, n], expected, rtol=0, atol=1e-12)
    assert (block["episode_step"] == 0).sum() > 3 * N


def errors(cfg: Any, policy: Any, block: dict[str, Any], n: int, rescale: bool) -> list[float]:
    """Return the n-step errors of each row of an environment."""
    gamma, nstep = cfg.policy.discount_factor, cfg.policy.nstep
    online, target_rows = (
        [[output["logit"][0, 0] for output in row[1:]] for row in step_by_step(network, block, n)]
        for network in (policy.model, policy._target_model)
    )
    (own, following), (_, target) = (list(zip(*rows, strict=True)) for rows in (online, target_rows))
    found = []
    for t in range(T - nstep + 1):
        total, discount, last = 0.0, 1.0, t
        for last in range(t, t + nstep):
            total += discount * float(block["reward"][last, n])
            discount *= gamma
            if block["traj_flag"][last, n]:
                break
        if not block["done"][last, n]:
            best = target[last][following[last].argmax()]
            total += discount * float(value_inv_transform(best) if rescale else best)
        goal = float(value_transform(torch.tensor(total, dtype=torch.float64))) if rescale else total
        found.append(goal - float(own[t][block["action"][t, n]]))
    return found


# Sequences that start with their episode have exact states; with these episodes of at most 8 steps, a burn-in of 8
# brings every other sequence into an episode whose first step it has seen.
@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("burnin", [0, 8])
def test_loss_and_priorities_are_those_of_errors_worked_out_step_by_step(burnin: int, rescale: bool) -> None:
    cfg, policy, block = play(
        f"policy.burnin_step={burnin}", f"policy.learn.value_rescale={rescale}", "policy.priority=True",
        "policy.priority_IS_weight=True",
    )  # fmt: skip
    replay = replay_of(cfg, block)
    rows = [t for t in range(T - UNROLL - burnin - 2) if burnin or (block["episode_step"][t] == 0).any()]
    pairs = [(t, n) for t in rows for n in range(N) if burnin or block["episode_step"][t, n] == 0]
    index = torch.tensor([t * N + n for t, n in pairs])
    batch = tree_map(to_double, replay.view.gather(replay.ring, {"index": index}))
    batch["weight"] = torch.linspace(0.2, 1.0, len(pairs), dtype=torch.float64)
    assert len(pairs) > 5
    assert "final_index" in batch
    assert batch["done"].any()
    assert batch["episode_start"][1:].any()
    all_errors = [errors(cfg, policy, block, n, rescale) for n in range(N)]
    loss, figures = policy.loss(batch)
    total = 0.0
    for b, (t, n) in enumerate(pairs):
        error = np.array(all_errors[n][t + burnin : t + burnin + UNROLL])
        total += float(batch["weight"][b]) * (error**2).mean() / len(pairs)
        expected = 0.9 * np.abs(error).max() + 0.1 * np.abs(error).mean()
        assert figures["priority"][b].item() == pytest.approx(expected, abs=1e-5)  # replay stores float32
    assert loss.item() == pytest.approx(total, abs=1e-5)


def test_burn_in_is_without_gradient() -> None:
    cfg, policy, block = play("policy.burnin_step=4")
    replay = replay_of(cfg, block)
    batch = tree_map(to_double, replay.sample(16))
    batch["obs"].requires_grad_(True)
    policy.loss(batch)[0].backward()
    reached = batch["obs"].grad.flatten(1).abs().sum(1) > 0
    assert reached.tolist() == [False] * 4 + [True] * UNROLL + [False] * 2  # burn-in, steps to learn from, sums' ends


def test_burn_in_brings_a_wrong_state_up_to_date() -> None:
    cfg, policy, block = play("policy.burnin_step=8")  # as long as the longest episode
    batch = tree_map(to_double, replay_of(cfg, block).sample(16))
    wrong = batch | {"prev_state": tree_map(lambda leaf: leaf + 5.0, batch["prev_state"])}
    torch.testing.assert_close(policy.loss(wrong)[0], policy.loss(batch)[0])
