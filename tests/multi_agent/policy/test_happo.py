"""In HAPPO, agents learn one after the other, each with what those before it have changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiDiscrete
from torch import Tensor

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs.spaces import EnvSpec
from ding_lite.rl_utils.distribution import log_prob
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.helpers import parameter_hash


def test_an_agents_factor_is_the_product_of_the_ratios_of_those_before_it() -> None:
    cfg = parity.compile_problem("happo", "agents", ["policy.learn.epoch_per_collect=2"])
    cfg.policy.learn.batch_size = 10**6
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)
    rows = tree_map(lambda leaf: leaf.flatten(0, 1), {key: block[key] for key in ("obs", "action", "logit")})
    number: Tensor = rows["obs"]["global_state"][:, 1].double()  # differs from row to row

    def ratio(agent: int) -> Tensor:
        with torch.no_grad():
            logit = policy.model(policy._to_device(rows["obs"]), mode="compute_actor")["logit"]
        new, old = (log_prob(each[:, agent].double(), rows["action"][:, agent]) for each in (logit, rows["logit"]))
        return (new - old).exp()

    order: list[int] = []
    for batch in policy.batches(policy.to_samples(block)):
        agent = int(batch["agent"])
        if agent not in order:
            expected = torch.stack([ratio(each) for each in order]).prod(0) if order else torch.ones_like(number)
            order.append(agent)
        place = (number[:, None] == batch["obs"]["global_state"][:, 1]).int().argmax(0)
        torch.testing.assert_close(batch["factor"], expected[place], atol=1e-6, rtol=1e-5)
        actors: Any = policy.model.actors
        before = [parameter_hash(actor) for actor in actors]
        policy.learn(batch)
        changed = [parameter_hash(actor) != old for actor, old in zip(actors, before, strict=True)]
        assert changed == [each == agent for each in range(2)]
    assert sorted(order) == [0, 1]
    assert not torch.allclose(expected, torch.ones_like(expected))


def test_the_order_of_the_agents_changes_and_is_that_of_a_resumed_run() -> None:
    cfg = parity.compile_problem("happo", "agents", ["policy.learn.epoch_per_collect=1"])
    cfg.policy.learn.batch_size = 10**6
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)

    def order(one: Any) -> tuple[int, ...]:
        found = []
        for batch in one.batches(one.to_samples(block)):
            found.append(int(batch["agent"]))
            one.learn(batch)
        return tuple(found)

    assert {order(policy) for _ in range(20)} == {(0, 1), (1, 0)}
    other = parity.create_policy(cfg)
    other.load_state_dict(policy.state_dict())
    assert [order(policy) for _ in range(5)] == [order(other) for _ in range(5)]


def test_an_agent_that_is_out_of_the_game_in_a_whole_collect_takes_no_step() -> None:
    cfg = parity.compile_problem("happo", "agents", ["policy.learn.epoch_per_collect=2"])
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)
    mask = block["obs"]["action_mask"]
    mask[:], block["action"][..., 1] = 1, 2
    mask[..., 1, :2] = 0
    assert {int(batch["agent"]) for batch in policy.batches(policy.to_samples(block))} == {0}


def test_it_needs_a_global_state_and_takes_di_engines_keys() -> None:
    learn = dict(learning_rate=5e-4, critic_learning_rate=5e-4, value_weight=0.5, multi_gpu=False)
    network = dict(use_lstm=False, action_space="discrete")
    main = dict(policy=dict(multi_agent=True, agent_num=2, recompute_adv=True, model=network, learn=learn))
    pair = (main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="happo")))
    spaces: dict[str, Any] = dict(agent_state=Box(-1, 1, (2, 4)))
    for more in ({}, dict(global_state=Box(-1, 1, (6,)))):
        cfg = compile_config(pair)
        set_shapes(cfg, EnvSpec(Dict(spaces | more), MultiDiscrete([3, 3]), 0))
        if more:
            assert len(POLICY_REGISTRY.find("happo")(cfg.policy).model.actors) == 2
            continue
        with pytest.raises(ConfigError, match=r"^The value of all agents needs the key global_state in the observatio"):
            POLICY_REGISTRY.find("happo")(cfg.policy)
