"""Offline actor-critics find the best action of a small data set, and do not leave the data to look for a better one.

The data are games of one step in two states, -1 and 1, with actions that were drawn evenly.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.policy.continuous.helpers import make_qac

SIZE = 512
COMMON = ("learn.batch_size=128", "model.actor_head_hidden_size=32", "model.critic_head_hidden_size=32")
OVERRIDES = {
    "td3_bc": ("learn.learning_rate_actor=3e-3", "learn.learning_rate_critic=3e-3", "learn.target_theta=0.05"),
    "iql": ("learn.tau=0.9", "learn.beta=30.0", "learn.target_theta=0.05",
            *(f"learn.learning_rate_{network}=3e-3" for network in ("q", "value", "policy"))),
    "cql": ("learn.num_actions=4", "learn.auto_alpha=False", "learn.alpha=0.01",
            "learn.learning_rate_q=3e-3", "learn.learning_rate_policy=3e-3"),
    "edac": ("model.critic_head_layer_num=2", "learn.auto_alpha=False", "learn.alpha=0.01",
             "learn.learning_rate_q=3e-3", "learn.learning_rate_policy=3e-3"),
}  # fmt: skip
STATES = torch.tensor([[-1.0], [1.0]])


def learn(kind: str, *overrides: str, width: float, reward: Any, iterations: int = 350) -> Tensor:
    """Learn from actions in -width..width; return the best actions in both states."""
    torch.manual_seed(0)
    obs = STATES[torch.randint(2, (SIZE,))]
    action = (torch.rand(SIZE, 1) * 2 - 1) * width
    data = {"obs": obs, "next_obs": obs, "action": action, "reward": reward(obs, action)[:, 0]}
    data |= {"done": torch.ones(SIZE).bool(), "value_gamma": torch.full((SIZE,), 0.99)}
    shapes = ("model.obs_shape=1", "model.action_shape=1")
    policy = make_qac(kind, *COMMON, *shapes, *OVERRIDES[kind], *overrides)
    for _ in range(iterations):
        index = torch.randint(SIZE, (128,))
        policy.learn({key: column[index] for key, column in data.items()})
    return policy.act(STATES.numpy(), explore=False)["action"][:, 0]


def peak(obs: Tensor, action: Tensor) -> Tensor:
    """Greatest at 0.4 times the state."""
    return -10 * (action - 0.4 * obs).square()


def slope(obs: Tensor, action: Tensor) -> Tensor:
    """Rises towards the state, beyond what the data have seen."""
    return 2 * obs * action


WITHIN = {"td3_bc": ("learn.alpha=0.1",), "iql": (), "cql": ()}
FREE = {"td3_bc": ("learn.alpha=20.0",), "iql": (), "cql": ("learn.min_q_weight=0.5",), "edac": ()}


@pytest.mark.parametrize(
    "kind", ["iql", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("td3_bc", "cql", "edac"))]
)
def test_the_best_action_of_the_data_is_found(kind: str) -> None:
    action = learn(kind, *FREE[kind], width=1.0, reward=peak)
    assert action.tolist() == pytest.approx([-0.4, 0.4], abs=0.12)


@pytest.mark.parametrize("kind", ["td3_bc", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("iql", "cql"))])
def test_what_the_data_have_not_tried_is_not_done(kind: str) -> None:
    toward = learn(kind, *WITHIN[kind], width=0.3, reward=slope, iterations=500) * STATES[:, 0]
    assert (toward > 0.05).all()
    assert (toward < 0.33).all()
