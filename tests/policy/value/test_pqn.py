"""The lambda returns of PQN, against a loop over steps and environments."""

from __future__ import annotations

import pytest
import torch

from tests.policy.helpers import build_policy


@pytest.mark.parametrize("q_lambda", [0.0, 0.65, 1.0])
def test_returns_are_those_of_pengs_q_lambda(q_lambda: float) -> None:
    network = dict(encoder_hidden_size_list=[8], obs_shape=4, action_shape=2)
    policy = build_policy("pqn", network, f"collect.q_lambda={q_lambda}", "discount_factor=0.9")
    steps, num_envs, ends = 6, 2, [(1, 0, True), (3, 1, False)]  # step, environment, terminated; others go on
    block = {
        "logit": torch.randn(steps, num_envs, 2),
        "reward": torch.randn(steps, num_envs),
        "done": torch.zeros(steps, num_envs).bool(),
        "traj_flag": torch.zeros(steps, num_envs).bool(),
        "last_obs": torch.randn(num_envs, 4),
        "final_obs": torch.randn(len(ends), 4),
        "final_index": torch.tensor([t * num_envs + n for t, n, _ in ends]),
    }
    for t, n, terminated in ends:
        block["traj_flag"][t, n], block["done"][t, n] = True, terminated
    value_TN, return_TN = policy._returns(block)
    best_TN = block["logit"].amax(-1)
    assert torch.equal(value_TN, best_TN)
    last_N, final_K = (policy.model(block[key])["logit"].amax(-1) for key in ("last_obs", "final_obs"))
    for n in range(num_envs):
        following = 0.0
        for t in reversed(range(steps)):
            stops = {(step, env): k for k, (step, env, _) in enumerate(ends)}
            bootstrap = last_N[n] if t == steps - 1 else best_TN[min(t + 1, steps - 1), n]
            if (t, n) in stops:
                bootstrap = final_K[stops[t, n]]
            cut = t == steps - 1 or (t, n) in stops
            value = bootstrap if cut else q_lambda * following + (1 - q_lambda) * bootstrap
            following = (block["reward"][t, n] + 0.9 * (0 if block["done"][t, n] else value)).item()
            assert return_TN[t, n].item() == pytest.approx(following, abs=1e-5)
