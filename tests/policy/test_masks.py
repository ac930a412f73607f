"""Every policy of discrete actions obeys the mask in its observations: when it acts, and in its losses."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch import Tensor

from ding_lite.policy import Policy
from ding_lite.utils.tree import tree_map
from tests.algorithms import ALGORITHMS, policy_keys, row
from tests.distributed import parity
from tests.policy.helpers import KINDS, OURS, batches_of

CASES: list[tuple[str, str, list[str]]] = [
    (name, kind, []) for name in OURS for kind in KINDS[name] if kind.endswith("discrete")
]
CASES += [(name, KINDS[name][0], policy_keys(words)) for name, each in ALGORITHMS.items() for words in each.also_masked]
COMPARABLE = [case for case in CASES if row(case[0]).comparable is not None]
EACH = pytest.mark.parametrize(
    ("name", "kind", "more"), COMPARABLE, ids=["-".join([*c[:2], *c[2]]) for c in COMPARABLE]
)
NUM = 1000  # random masks


@functools.cache
def problem(name: str, kind: str, *more: str) -> tuple[Any, dict[str, Any]]:
    """Return a config, and a block that was played with it; the environment fails at a forbidden action."""
    words = [*policy_keys(row(name).short), *policy_keys(row(name).comparable or ""), *more, "env.masked=True"]
    cfg = parity.compile_problem(name, kind, words)
    cfg.policy.learn.batch_size = 10**6
    return cfg, parity.collect_block(cfg)


OF_AGENTS: Any = [(name, "agents", []) for name in OURS if "agents" in KINDS[name]]


@pytest.mark.parametrize(("name", "kind", "more"), [*CASES, *OF_AGENTS])
def test_no_action_is_played_that_a_mask_forbids(name: str, kind: str, more: list[str]) -> None:
    policy = parity.create_policy(problem(name, kind, *more)[0])
    mask = torch.rand(NUM, *([] if kind == "discrete" else [2]), 3) < 0.4
    if kind == "multi_discrete":
        mask[:, 1, 2] = False  # the second branch has two options
    mask[..., 0] |= ~mask.any(-1)
    obs = {"observation": torch.randn(NUM, 4), "action_mask": mask}
    if kind == "agents":
        obs = parity.observations("mappo", NUM) | {"action_mask": mask}
    played = [policy.act(obs, explore=False)["action"]]
    for eps in (0.0, 0.5, 1.0) if "eps" in policy.begin_collect(0) else (None,):
        policy.reset()
        kwargs: dict[str, Any] = {} if eps is None else {"eps": eps}
        played.append(policy.act(obs, **kwargs)["action"])
    for action in played:
        assert mask.gather(-1, action[..., None]).all()
        assert len(action.unique()) == 3


def by_option(large: Tensor, kind: str) -> Tensor:
    """Return the parameter of a last layer, `[branches, options, ...]`."""
    branches = 2 if kind == "multi_discrete" and len(large) == 6 else 1  # BDQ has a layer for each branch
    return large.unflatten(0, (branches, min(len(large), 3), -1))


def without_first(small: Tensor, large: Tensor, kind: str) -> Tensor:
    """Return a parameter of a network without the rows of the first option of each branch."""
    return large if small.shape == large.shape else by_option(large, kind)[:, 1:].flatten(0, 2)


def forbid_first(block: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a block in which exactly the first option of each branch is forbidden, and was not played."""
    mask = torch.tensor([0, 1, 1] if kind == "discrete" else [[0, 1, 1], [0, 1, 0]], dtype=torch.int8)
    block = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, block)
    for key in ("obs", "last_obs", "final_obs"):
        block[key] = block[key] | {"action_mask": mask.expand_as(block[key]["action_mask"])}
    last = torch.tensor(2 if kind == "discrete" else [2, 1])
    block["action"] = torch.where(block["action"] == 0, last, block["action"])
    if "logit" in block:
        block["logit"] = tree_map(lambda x: x.clamp_min(-1.0).masked_fill(mask == 0, -torch.inf), block["logit"])
    return block


def drop_first(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block as it is of the task that does not have these options."""
    small = {key: value["observation"] if key.endswith("obs") else value for key, value in block.items()}
    if "logit" in block:
        small["logit"] = tree_map(lambda x: x[..., 1:], block["logit"])
    return small | {"action": block["action"] - 1}


def learn(policy: Policy, cfg: Any, block: dict[str, Any]) -> list[dict[str, Tensor]]:
    torch.manual_seed(0)
    return [policy.learn(batch) for _ in range(2) for batch in batches_of(policy, cfg, block)]


@EACH
def test_a_masked_task_is_learned_as_one_whose_forbidden_actions_do_not_exist(
    name: str, kind: str, more: list[str]
) -> None:
    cfg, played = problem(name, kind, *more)
    small_cfg = copy.deepcopy(cfg)
    small_cfg.policy.model |= dict(obs_shape=4, action_shape=2 if kind == "discrete" else [2, 1])
    large, small = parity.create_policy(cfg), parity.create_policy(small_cfg)
    before = copy.deepcopy(large.model.state_dict())
    pairs = zip(small.model.state_dict().items(), before.values(), strict=True)
    model = {key: without_first(mine, other, kind) for (key, mine), other in pairs}
    small.load_state_dict({key: v for key, v in small.state_dict().items() if key != "optimizer"} | {"model": model})
    block = forbid_first(played, kind)
    for ours, theirs in zip(learn(large, cfg, block), learn(small, small_cfg, drop_first(block)), strict=True):
        assert ours.keys() == theirs.keys()
        for key, figure in ours.items():
            same = (figure.mean(), theirs[key].mean()) if key == "q_value" else (figure, theirs[key])
            torch.testing.assert_close(*same, atol=1e-9, rtol=1e-7, msg=key)
    for (key, mine), other, old in zip(
        small.model.state_dict().items(), large.model.state_dict().values(), before.values(), strict=True
    ):
        torch.testing.assert_close(without_first(mine, other, kind), mine, atol=1e-9, rtol=1e-7, msg=key)
        if mine.shape != other.shape:  # what forbidden actions have is as it was
            assert torch.equal(by_option(other, kind)[:, 0], by_option(old, kind)[:, 0])
