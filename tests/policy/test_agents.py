"""With `multi_agent=True`, each agent of a sample is a sample of its own for a policy of one agent."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.model.agents import fold_agents
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves
from tests.distributed import parity
from tests.policy.helpers import parameter_hash

AGENTS = 2  # in the environment of the parity test, each with what it observes, `[4]`, and three actions


def problem(name: str, *words: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return a config, a policy, and a block that the policy played."""
    cfg = parity.compile_problem(name, "agents", [f"policy.{word}" for word in words])
    return cfg, parity.create_policy(cfg), parity.collect_block(cfg)


@pytest.mark.parametrize("name", ["dqn", "discrete_sac"])
def test_a_sample_is_one_of_each_agent_and_its_priority_is_their_mean(name: str) -> None:
    cfg, policy, block = problem(name, "priority=True", "priority_IS_weight=True", "nstep=1")
    batch = parity.replay_everything(cfg, policy.to_samples(block), parity.NUM_ENVS)
    alone = copy.deepcopy(cfg)
    alone.policy.multi_agent = False
    rows = {key: batch[key].repeat_interleave(AGENTS, 0) for key in ("reward", "done", "value_gamma", "weight")}
    rows |= {key: fold_agents(batch[key], 0, agent_id=True) for key in ("obs", "next_obs")}
    rows["action"] = batch["action"].flatten()
    # the policy of one agent, with the network that the other has by default
    single = POLICY_REGISTRY.find(name)(alone.policy, copy.deepcopy(policy.model))
    expected, found = (one.learn(part) for one, part in ((single, rows), (policy, batch)))
    assert parameter_hash(policy.model) == parameter_hash(single.model)
    torch.testing.assert_close(found.pop("priority"), expected.pop("priority").view(-1, AGENTS).mean(1))
    for key, figure in expected.items():
        torch.testing.assert_close(found[key].mean(), figure.mean(), equal_nan=True, msg=key)


@pytest.mark.parametrize("words", [[], ["model.type=vac"]])
def test_what_an_agent_remembers_belongs_to_its_environment(words: list[str]) -> None:
    _, policy, _ = problem("ppo", "model.lstm_type=gru", *words)

    def act(explore: bool = True) -> Tensor:
        return policy.act(parity.observations("mappo", 3), explore=explore)["logit"]

    first, second = act(), act()
    assert first.shape == (3, AGENTS, 3)
    states = list(tree_leaves(policy.local_state_dict()["state"]))
    assert len(states) == 2 - len(words)  # of policy and value
    assert {state.shape[:2] for state in states} == {(3, AGENTS)}  # so that ranks can exchange environments
    assert not torch.equal(first[1], second[1])
    policy.reset([1])
    third = act()
    assert torch.equal(third[1], first[1])
    assert not torch.equal(third[0], first[0])
    assert torch.equal(act(explore=False), first)  # an evaluation has a memory of its own
