"""BDQ explores each branch, and refuses branches that the environment does not have."""

from __future__ import annotations

import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete

from ding_lite.config import compile_config, set_shapes
from ding_lite.envs import EnvSpec
from ding_lite.policy import BDQPolicy
from ding_lite.utils.registry import ConfigError
from tests.policy.value.test_losses import table_policy


@pytest.mark.parametrize("mode", ["collect", "eval"])
def test_every_branch_explores_its_own_options_by_itself(mode: str) -> None:
    policy, obs = table_policy("bdq", "eval.eps=0.6"), torch.eye(2)[:1].expand(20_000, 2)
    if mode == "collect":
        action_ND = policy.act(obs, eps=0.6)["action"]
    else:
        policy.reset(explore=False)
        action_ND = policy.act(obs, explore=False)["action"]
    assert action_ND.shape == (20_000, 2)
    # Greedy are 1 and 2. Branch 0: 0.4 + 0.6 / 2 greedy; branch 1: 0.4 + 0.6 / 3. Standard deviation 0.0035.
    for branch, shares in enumerate([[0.3, 0.7, 0.0], [0.2, 0.2, 0.6]]):
        found = torch.bincount(action_ND[:, branch], minlength=3) / 20_000
        torch.testing.assert_close(found, torch.tensor(shares), atol=0.015, rtol=0)
    greedy_ND = action_ND == torch.tensor([1, 2])
    both = greedy_ND.all(-1).float().mean().item()
    assert both == pytest.approx(0.7 * 0.6, abs=0.015)  # independent of each other


def test_branches_that_do_not_fit_the_environment_are_refused() -> None:
    main = dict(env=dict(env_id="any"), policy=dict(model=dict(num_branches=3, action_bins_per_branch=3)))
    cfg = compile_config((main, dict(policy=dict(type="bdq"))))
    set_shapes(cfg, EnvSpec(Box(-1, 1, (4,)), MultiDiscrete([3, 2]), 0))
    with pytest.raises(ConfigError, match=r"do not describe the environment's actions, .* \[3, 2\]: leave both out"):
        BDQPolicy(cfg.policy)
