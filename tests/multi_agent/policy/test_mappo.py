"""MAPPO learns from each agent as PPO does from an environment, with the value of its critic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, MultiDiscrete

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs.spaces import EnvSpec
from ding_lite.model import MAVAC
from ding_lite.multi_agent.model.agents import fold_agents
from ding_lite.policy import create_policy
from ding_lite.rl_utils.policy_gradient import gae, gae_data
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.policy.helpers import is_out


@pytest.mark.parametrize("centralized", [True, False])
def test_each_agent_is_a_player_of_its_own(centralized: bool) -> None:
    words = ["learn.adv_norm=False", "learn.value_norm=False", "learn.epoch_per_collect=1"]
    words.append(f"model.centralized_critic={centralized}")
    cfg = parity.compile_problem("mappo", "agents", [f"policy.{word}" for word in words])
    cfg.policy.learn.batch_size = 10**6
    policy, block = parity.create_policy(cfg), parity.collect_block(cfg)
    (batch,) = policy.batches(policy.to_samples(block))

    def values(obs: dict[str, Any]) -> torch.Tensor:
        with torch.no_grad():
            seen = fold_agents(policy._to_device(obs), 0, agent_id=True)
            value_B2 = policy.model(seen, mode="compute_critic")["value"].view(-1, 2)
        return torch.where(is_out(obs["action_mask"]), value_B2.flip(1), value_B2)  # then, what the other one expects

    rows = []
    for m in range(2):
        value_TN = block["value"][..., m].double()
        next_value_TN = torch.cat([value_TN[1:], values(block["last_obs"])[None, :, m]])
        next_value_TN.view(-1)[block["final_index"]] = values(block["final_obs"])[:, m]
        data = gae_data(value_TN, next_value_TN, block["reward"].double(), block["done"], block["traj_flag"])
        adv_TN = gae(data, cfg.policy.discount_factor, cfg.policy.collect.gae_lambda)
        state, number = block["obs"]["global_state"].double(), torch.full_like(adv_TN, m)
        rows.append(torch.stack([state[..., 1], number, block["action"][..., m], adv_TN], -1).view(-1, 4))
    expected = torch.cat(rows)[~is_out(block["obs"]["action_mask"]).flatten(0, 1).t().flatten()]
    batch = tree_map(lambda leaf: leaf[batch["weight"] > 0], batch)
    own = batch["obs"]["agent_state"][:, -1]  # 1 for the second agent
    found = torch.stack([batch["obs"]["global_state"][:, 1], own, batch["action"], batch["adv"]], -1)
    order = [(1000 * table[:, 1] + table[:, 0]).argsort() for table in (expected, found)]
    torch.testing.assert_close(expected[order[0]], found[order[1]], atol=1e-6, rtol=1e-5)
    assert parity.NUM_ENVS * parity.NUM_STEPS < len(found) < 2 * parity.NUM_ENVS * parity.NUM_STEPS
    assert batch["weight"].unique().item() == pytest.approx(2 * parity.NUM_ENVS * parity.NUM_STEPS / len(found))


@pytest.mark.parametrize("name", ["ppo", "mappo"])
def test_it_is_di_engines_ppo_with_several_agents_and_needs_a_global_state(name: str) -> None:
    create = dict(env=dict(env_id="CartPole-v1"), policy=dict(type=name))
    main = dict(policy={"action_space": "discrete", "multi_agent": True, "model": {"action_space": "discrete"}})
    cfg = compile_config((main, create))
    set_shapes(cfg, EnvSpec(Dict(agent_state=Box(-1, 1, (2, 4))), MultiDiscrete([3, 3]), 0))
    with pytest.raises(ConfigError, match="centralized_critic=True needs the key global_state"):
        create_policy(cfg.policy)
    cfg.policy.model.centralized_critic = False
    assert type(create_policy(cfg.policy).model) is MAVAC


def fit(name: str, actions: Box, **policy: Any) -> EasyDict:
    cfg = compile_config((dict(policy=policy), dict(env=dict(env_id="CartPole-v1"), policy=dict(type=name))))
    set_shapes(cfg, EnvSpec(Dict(agent_state=Box(-1, 1, (2, 4)), global_state=Box(-1, 1, (8,))), actions, 0))
    return cfg


@pytest.mark.parametrize("policy", [dict(), dict(multi_agent=True, model=dict(sigma_type="conditioned"))])
def test_each_agent_draws_continuous_actions_of_its_own(policy: dict[str, Any]) -> None:
    cfg = fit("ppo" if policy else "mappo", Box(-1, 1, (2, 3)), **policy)
    assert (cfg.policy.model.action_space, cfg.policy.model.action_shape) == ("continuous", 3)
    acting = create_policy(cfg.policy)
    assert type(acting.model) is MAVAC
    obs = {"agent_state": torch.zeros(5, 2, 4), "global_state": torch.zeros(5, 8)}
    output = acting.act(obs)
    assert output["action"].shape == output["logit"]["mu"].shape == output["logit"]["sigma"].shape == (5, 2, 3)
    assert output["value"].shape == (5, 2)
    assert len(output["action"].unique()) == 5 * 2 * 3
    best = acting.act(obs, explore=False)["action"]
    assert torch.equal(best[0], best[1])
    assert not torch.equal(best[0, 0], best[0, 1])  # the agents see their numbers


@pytest.mark.parametrize(
    ("name", "actions", "message"),
    [
        ("qmix", Box(-1, 1, (2, 3)), r"Policy 'qmix' expects MultiDiscrete actions, got Box.*: use mappo"),
        ("mappo", Box(-np.eye(2, dtype=np.float32), np.float32(1)), r"a Box \[M, D\] with equal rows, got"),
        ("mappo", Box(-1, 1, (3, 3)), r"a Box \[M, D\] with equal rows, got"),
        ("ppo", Box(-1, 1, (2, 3)), "2 agents, but policy 'ppo' plays for one: set policy.multi_agent=True"),
    ],
)
def test_other_continuous_actions_are_refused(name: str, actions: Box, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(name, actions)
