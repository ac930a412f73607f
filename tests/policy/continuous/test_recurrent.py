"""SAC and TD3 with memories: their losses against loops over single steps, and what they remember while they play."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.config import compile_config
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.helpers import batches_of

KINDS = ["recurrent_sac", "recurrent_td3"]
BURNIN, UNROLL, NSTEP, GAMMA = 2, 4, 3, 0.9


def problem(kind: str, *words: str) -> tuple[Any, dict[str, Any]]:
    """Return a policy in float64, and a batch of all sequences of a block with terminated and truncated episodes."""
    sizes = [f"policy.burnin_step={BURNIN}", f"policy.unroll_len={UNROLL}", f"policy.nstep={NSTEP}"]
    cfg = parity.compile_problem(kind, "continuous", [*sizes, f"policy.discount_factor={GAMMA}", *words])
    block = parity.collect_block(cfg)
    torch.manual_seed(0)
    policy: Any = POLICY_REGISTRY.find(kind)(cfg.policy)
    policy.model.double()
    policy = POLICY_REGISTRY.find(kind)(cfg.policy, policy.model)
    (batch,) = batches_of(policy, cfg, block)
    return policy, batch


def features(network: Any, batch: dict[str, Any], b: int, start: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Step through sequence b after burn-in; return the features of its rows, and of what followed each."""
    encoder, state, rows, following = network.encoder, start, [], []
    finals = {int(i): obs for i, obs in zip(batch["final_index"], batch["final_obs"], strict=True)}
    num_rows, size = batch["episode_start"].shape

    def step(obs: Tensor, state: Any) -> tuple[Tensor, Any]:
        output = encoder.run(obs.double()[None, None], state)
        return output["features"][0, 0], output["next_state"]

    for t in range(BURNIN, num_rows):
        if batch["episode_start"][t, b]:
            state = tree_map(torch.zeros_like, state)
        feature, state = step(batch["obs"][t, b], state)
        rows.append(feature)
        after = batch["last_obs"][b] if t == num_rows - 1 else batch["obs"][t + 1, b]
        following.append(step(finals.get(t * size + b, after), state)[0])
    return rows, following


def burned_in(policy: Any, batch: dict[str, Any], b: int, name: str) -> Any:
    """Return the state of a network of the model after the rows of burn-in."""
    state = tree_map(lambda leaf: leaf[b : b + 1].double(), batch["prev_state"][name])
    for t in range(BURNIN):
        if batch["episode_start"][t, b]:
            state = tree_map(torch.zeros_like, state)
        state = getattr(policy.model, name).encoder.run(batch["obs"][t, b].double()[None, None], state)["next_state"]
    return state


@torch.no_grad()
def test_the_errors_of_a_sequence_are_those_of_single_steps() -> None:
    policy, batch = problem("recurrent_td3", "policy.learn.noise=False")
    for target in (policy._target_actor, policy._target_critic):
        for parameter in target.parameters():
            parameter.add_(0.1)
    ready = policy._ready(batch)
    _, figures = policy._critic_loss(ready)
    size, checked = batch["episode_start"].shape[1], 0
    for b in range(0, size, 5):
        own, _ = features(policy.model.critic, batch, b, burned_in(policy, batch, b, "critic"))
        _, next_of_actor = features(policy._target_actor, batch, b, burned_in(policy, batch, b, "actor"))
        _, next_of_critic = features(policy._target_critic, batch, b, burned_in(policy, batch, b, "critic"))
        for u in range(UNROLL):
            row = BURNIN + u
            last = int(batch["last_step"][row, b]) - BURNIN
            action = policy._target_actor.head(next_of_actor[last])
            values = [head(torch.cat([next_of_critic[last], action])) for head in policy._target_critic.heads]
            target = batch["reward"][row, b] + batch["value_gamma"][row, b] * min(values) * ~batch["done"][row, b]
            taken = [head(torch.cat([own[u], batch["action"][row, b].double()])) for head in policy.model.critic.heads]
            error = sum((target - value).abs() for value in taken) / 2
            torch.testing.assert_close(figures["td_error"][u, b], error.squeeze(), rtol=1e-5, atol=1e-5)
            checked += 1
    assert checked > 20
    assert len(batch["final_index"])
    assert batch["episode_start"][BURNIN:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_priority_mixes_the_largest_and_the_mean_error_of_a_sequence(kind: str) -> None:
    policy, batch = problem(kind, "policy.priority=True", "policy.learn.priority_eta=0.75")
    figures = policy.learn(batch)
    errors = figures["td_error"]
    torch.testing.assert_close(figures["priority"], 0.75 * errors.amax(0) + 0.25 * errors.mean(0))


@pytest.mark.parametrize(("kind", "variant"), [("sac", "recurrent_sac"), ("td3", "recurrent_td3")])
def test_the_type_of_a_memory_makes_sac_and_td3_recurrent(kind: str, variant: str) -> None:
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(model=dict(lstm_type="gru")))
    cfg = compile_config((main, dict(policy=dict(type=kind))))
    assert (cfg.policy.type, cfg.policy.model.lstm_type) == (variant, "gru")
    assert cfg.notes == [f"policy.type '{kind}' with model.lstm_type='gru' is '{variant}' here."]
