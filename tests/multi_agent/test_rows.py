"""With `multi_agent=True`, each agent of a sample is a sample of its own for a policy of one agent."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

from ding_lite.multi_agent.model.agents import fold_agents
from ding_lite.policy import DQNPolicy, MAPPOPolicy
from ding_lite.torch_utils.minibatch import next_obs
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map
from tests.algorithms import policy_keys, row
from tests.distributed import parity
from tests.distributed.test_parity import leaves
from tests.policy.helpers import KINDS, OURS, batches_of, is_out, parameter_hash

AGENTS = 2  # in the environment of the parity test, each with what it observes, `[4]`, and three actions


def problem(name: str, *words: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return a config, a policy, and a block that the policy played."""
    cfg = parity.compile_problem(name, "agents", [f"policy.{word}" for word in words])
    return cfg, parity.create_policy(cfg), parity.collect_block(cfg)


@pytest.mark.parametrize("name", ["dqn", "discrete_sac"])
def test_a_sample_is_one_of_each_agent_in_the_game_and_its_priority_is_their_mean(name: str) -> None:
    cfg, policy, block = problem(name, "priority=True", "priority_IS_weight=True", "nstep=1")
    batch = parity.replay_everything(cfg, policy.to_samples(block), parity.NUM_ENVS)
    alone = copy.deepcopy(cfg)
    alone.policy.multi_agent = False
    rows = {key: batch[key].repeat_interleave(AGENTS, 0) for key in ("reward", "done", "value_gamma", "weight")}
    rows |= {key: fold_agents(batch[key], 0, agent_id=True) for key in ("obs", "next_obs")}
    rows["action"] = batch["action"].flatten()
    # what follows for an agent that has left, is what follows for the other one; who is out is no sample
    out, next_out = (is_out(batch[key]["action_mask"]) for key in ("obs", "next_obs"))
    other = torch.arange(len(out.flatten())).view(-1, AGENTS)[next_out.nonzero(as_tuple=True)].bitwise_xor(1)
    rows["next_obs"] = {key: part.clone() for key, part in rows["next_obs"].items()}
    for part in rows["next_obs"].values():
        part[other.bitwise_xor(1)] = part[other]
    assert out.any()
    assert next_out.any()
    rows = tree_map(lambda leaf: leaf[~out.flatten()], rows)
    # the policy of one agent, with the network that the other has by default
    single = POLICY_REGISTRY.find(name)(alone.policy, copy.deepcopy(policy.model))
    expected, found = (one.learn(part) for one, part in ((single, rows), (policy, batch)))
    assert parameter_hash(policy.model) == parameter_hash(single.model)
    priority = torch.full(out.shape, torch.nan, dtype=torch.float64)
    priority[~out] = expected.pop("priority").double()
    torch.testing.assert_close(found.pop("priority").double(), priority.nanmean(1))
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


def test_a_memory_gets_what_its_agent_observes_where_it_has_nothing_to_decide() -> None:
    """What it does one step later depends on that."""
    _, policy, block = problem("mappo", "model.lstm_type=gru")
    obs = {key: part[0] for key, part in block["obs"].items()}
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]]).expand(len(obs["global_state"]), 2, 3)
    outputs = []
    for seen in (obs["agent_state"], obs["agent_state"].flip(0)):
        policy.reset()
        policy.act(obs | {"action_mask": mask, "agent_state": seen})
        outputs.append(policy.act(obs | {"action_mask": torch.ones_like(mask)})["logit"])
    first, second = outputs
    assert not torch.isclose(first, second).all(-1).any()


def test_values_of_a_memory_whose_agent_is_out_of_the_game_are_those_of_the_other() -> None:
    _, policy, block = problem("mappo", "model.lstm_type=gru")
    block = policy._to_device(block)
    rows = {"prev_state": tree_map(lambda leaf: leaf.flatten(1, 2), block["prev_state"]), "value": torch.zeros(0)}
    rows |= {"obs": fold_agents(block["obs"], 1, agent_id=True), "last_obs": fold_agents(block["last_obs"], 0, True)}
    rows |= {"final_obs": fold_agents(block["final_obs"], 0, agent_id=True)}
    rows["final_index"] = (AGENTS * block["final_index"][:, None] + torch.arange(AGENTS)).flatten()
    rows["episode_step"] = block["episode_step"].repeat_interleave(AGENTS, 1)
    outs = [is_out(part["action_mask"]) for part in (block["obs"], next_obs(block))]
    own = [part.view(outs[0].shape) for part in policy._values(rows, recompute=True)]
    expected = [torch.where(out, part.flip(-1), part).flatten(1) for out, part in zip(outs, own, strict=True)]
    block["value"] = own[0]
    for recompute in (False, True):  # as it acted, and with the same network afterwards
        found = policy._values(policy._agents.fold(block, dim=1), recompute=recompute)
        torch.testing.assert_close(found, tuple(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "policy_cls"), [("dqn", DQNPolicy), ("mappo", MAPPOPolicy)])
def test_a_policy_of_rows_is_one_of_its_algorithm_also_for_pickle(name: str, policy_cls: type) -> None:
    _, policy, _ = problem(name)
    assert isinstance(policy, policy_cls)
    assert type(pickle.loads(pickle.dumps(policy))) is type(copy.deepcopy(policy)) is type(policy)


def test_a_class_that_knows_no_agents_refuses_a_config_with_several() -> None:
    with pytest.raises(ConfigError, match="changes DQNPolicy: use"):
        DQNPolicy(parity.compile_problem("dqn", "agents", []).policy)


OF_AGENTS = [name for name in OURS if "agents" in KINDS[name]]


@pytest.mark.parametrize(("name", "words"), [(name, words) for name in OF_AGENTS for words in row(name).out])
def test_what_data_hold_of_an_agent_out_of_the_game_changes_nothing(name: str, words: str) -> None:
    cfg = parity.compile_problem(name, "agents", ["env.norm_obs=True", *policy_keys(words)])
    cfg.policy.learn.batch_size = 10**6
    block = parity.collect_block(cfg)
    other = copy.deepcopy(block)
    generator = torch.Generator().manual_seed(0)
    for key in ("obs", "last_obs", "final_obs"):
        out, state = is_out(other[key]["action_mask"]), other[key]["agent_state"]
        if "model.lstm_type=gru" not in words:  # a memory gets what its agent observes, and may need it later
            state[out] = torch.empty_like(state[out]).normal_(3.0, generator=generator)
    out = is_out(block["obs"]["action_mask"])
    assert 0.1 < out.double().mean() < 0.5
    for key in {"logit", "value"} & block.keys():
        of_each = block[key].shape[: out.ndim] == out.shape  # HAPPO's value is that of all
        other[key][out if of_each else []] += 3.0
    other["action"][out] = torch.randint(3, (int(out.sum()),), generator=generator)
    found = []
    for data in (block, other):
        policy = parity.create_policy(cfg)
        policy.normalizer = Normalizer(space_of(data), None)
        policy.begin_collect(0)
        figures = []
        for _ in range(2):
            torch.manual_seed(0)
            for batch in batches_of(policy, cfg, copy.deepcopy(data)):
                if policy.learns_from == "replay" and "weight" in batch:  # the parity test makes it of observations
                    batch["weight"] = torch.linspace(0.5, 2.0, len(batch["weight"])).double()
                figures.append(policy.learn(batch))
        found.append({"figures": dict(enumerate(figures)), "state": policy.state_dict()})
    for (path, first), (_, second) in zip(*map(leaves, found), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-12, equal_nan=True, msg=path)


def space_of(block: dict[str, Any]) -> Dict:
    """Return the space of the observations of a block."""
    shapes = {key: part.shape[2:] for key, part in block["obs"].items() if key != "action_mask"}
    return Dict({key: Box(-np.inf, np.inf, shape, np.float32) for key, shape in shapes.items()})
