"""R2D2: what it stores, errors worked out step by step, burn-in. tests/policy/test_sequences.py has the rest."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.envs import create_vector_env
from ding_lite.rl_utils.td import value_inv_transform, value_transform
from ding_lite.utils.registry import BUFFER_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import SampleCollector
from tests.distributed import parity
from tests.policy.helpers import target_of

N, T, UNROLL = 3, 30, 5


def build(*overrides: str) -> tuple[Any, Any]:
    """Return config and policy, in float64, with a target network that differs from the online one."""
    words = [f"policy.unroll_len={UNROLL}", "policy.nstep=3", "policy.discount_factor=0.9", *overrides]
    cfg = parity.compile_problem("r2d2", "discrete", ["policy.burnin_step=2", "policy.multi_gpu=False", *words])
    torch.manual_seed(0)
    policy_cls: Any = POLICY_REGISTRY.find("r2d2")
    policy = policy_cls(cfg.policy, policy_cls(cfg.policy, enable_field=()).model.double())
    for parameter in target_of(policy).values():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return cfg, policy


def play(*overrides: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return config and policy, untrained, and a block of episodes of 2 to 8 steps, terminated or truncated."""
    cfg, policy = build(*overrides)
    env = create_vector_env(cfg.env, N, 0, True)
    block, _ = SampleCollector(env, policy, T * N, list(range(N))).collect()
    env.close()
    return cfg, policy, copy.deepcopy(block)


def replay_of(cfg: Any, block: dict[str, Any], kind: str = "uniform") -> Any:
    keys = {key: cfg.policy[key] for key in ("unroll_len", "burnin_step", "nstep")}
    replay = BUFFER_REGISTRY.find(kind)(100, N, gamma=cfg.policy.discount_factor, **keys)
    replay.push(block)
    return replay


def to_double(leaf: Tensor) -> Tensor:
    return leaf.double() if leaf.is_floating_point() else leaf


def value(network: Any, obs: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Return Q `[A]` and the new state of one observation after a state, None at the start of an episode."""
    with torch.no_grad():
        output = network(obs.double()[None, None], prev_state=state)
    return output["logit"][0, 0], output["next_state"]


def test_the_state_before_each_step_is_stored_and_begins_anew_with_each_episode() -> None:
    _, policy, block = play()
    for n in range(N):
        state: Any = None
        for t in range(T):
            state = None if block["episode_step"][t, n] == 0 else state
            for name, column in block["prev_state"].items():
                expected = torch.zeros_like(column[t, n]) if state is None else state[name][0]
                torch.testing.assert_close(column[t, n], expected, rtol=0, atol=1e-12)
            _, state = value(policy.model, block["obs"][t, n], state)
    assert (block["episode_step"] == 0).sum() > 3 * N


def values_of_rows(network: Any, block: dict[str, Any], n: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return the values of each row, and those of the observation that followed it, from the start of each episode.

    A network whose states are not the stored ones runs from the stored state of the first row.
    """
    finals = dict(zip(block["final_index"].tolist(), block["final_obs"], strict=True))
    obs_T = [*block["obs"][:, n], block["last_obs"][n]]
    state: Any = {name: column[0, n][None] for name, column in block["prev_state"].items()}
    own, following = [], []
    for t in range(T):
        state = None if block["episode_step"][t, n] == 0 else state
        q, state = value(network, obs_T[t], state)
        own.append(q)
        following.append(value(network, finals.get(t * N + n, obs_T[t + 1]), state)[0])
    return own, following


def errors(cfg: Any, policy: Any, block: dict[str, Any], n: int, rescale: bool) -> list[float]:
    """Return the n-step errors of each row of an environment."""
    gamma, nstep = cfg.policy.discount_factor, cfg.policy.nstep
    own, following = values_of_rows(policy.model, block, n)
    _, target = values_of_rows(policy._target_model, block, n)
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
