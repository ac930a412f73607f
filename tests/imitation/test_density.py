"""pi(a | s) of policies that draw an action by a softmax, and by the tanh of a normal variable; who has none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.imitation.density import LEAST_LOG_DENSITY, log_density
from ding_lite.utils.registry import ConfigError
from tests.imitation.helpers import pair, write_cartpole_expert
from tests.policy.helpers import Formula, build_policy


def normal(net: Any, obs: Any, mode: str) -> Any:
    return {"logit": {"mu": net.mu.expand(len(obs), 1), "sigma": net.sigma.expand(len(obs), 1)}}


def test_a_softmax() -> None:
    """Of the logits (0, log 3) the probabilities are 1/4 and 3/4; an action with -1000 has the least density."""
    table = Formula(lambda net, obs, mode: {"logit": net.logit.expand(len(obs), 3)}, logit=[0.0, math.log(3.0), -1e3])
    policy = build_policy("ppo", {}, model=table)
    logp_M = log_density(policy, torch.zeros(3, 4), torch.tensor([0, 1, 2]))
    torch.testing.assert_close(logp_M, torch.tensor([math.log(0.25), math.log(0.75), LEAST_LOG_DENSITY]))


def test_the_tanh_of_a_normal_variable() -> None:
    network = Formula(normal, mu=[0.5], sigma=[0.8], actor=torch.nn.Linear(1, 1), critic=torch.nn.Linear(1, 1))
    policy = build_policy("sac", {}, model=network)
    action_M1 = torch.tensor([[0.3], [-0.9], [1.0]])  # an expert may play what a tanh never reaches
    logp_M = log_density(policy, torch.zeros(3, 1), action_M1)
    squashed = TransformedDistribution(Normal(0.5, 0.8), [TanhTransform()])
    torch.testing.assert_close(logp_M[:2], squashed.log_prob(action_M1[:2, 0]), rtol=1e-4, atol=1e-5)
    assert LEAST_LOG_DENSITY <= logp_M[2].item() < logp_M[0].item()


@pytest.mark.parametrize(
    ("policy", "words", "message"),
    [
        ({}, [], "needs the probability of each action, which policy 'dqn' does not have"),
        ({"type": "pqn"}, [], "needs the probability of each action, which policy 'pqn' does not have"),
        ({"type": "ppo"}, ["policy.model.lstm_type=gru"], "choose one such as 'ppo' or 'sac', without a memory"),
        ({"type": "sac"}, ["env.env_id=Pendulum-v1"], "has played: set policy.random_collect_size=0"),
    ],
)
def test_policies_without_a_density_are_refused_in_one_line(
    tmp_path: Path, policy: dict[str, Any], words: list[str], message: str
) -> None:
    write_cartpole_expert()
    train = serial_pipeline_onpolicy if policy.get("type") in ("ppo", "pqn") else serial_pipeline
    with pytest.raises(ConfigError) as caught:
        train(pair("guided_cost", **policy), seed=0, max_train_iter=8, overrides=words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
