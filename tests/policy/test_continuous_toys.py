"""Offline actor-critics find the best action of a small data set, and do not leave the data to look for a better one.

The data are games of one step in two states, -1 and 1, with actions that were drawn evenly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.algorithms import ALGORITHMS
from tests.policy.continuous.helpers import make_qac

SIZE = 512
COMMON = ("learn.batch_size=128", "model.actor_head_hidden_size=32", "model.critic_head_hidden_size=32")
STATES = torch.tensor([[-1.0], [1.0]])


def learn(kind: str, overrides: str, width: float, reward: Any, iterations: int = 350) -> Tensor:
    """Learn from actions in -width..width; return the best actions in both states."""
    torch.manual_seed(0)
    obs = STATES[torch.randint(2, (SIZE,))]
    action = (torch.rand(SIZE, 1) * 2 - 1) * width
    data = {"obs": obs, "next_obs": obs, "action": action, "reward": reward(obs, action)[:, 0]}
    data |= {"done": torch.ones(SIZE).bool(), "value_gamma": torch.full((SIZE,), 0.99)}
    shapes = ("model.obs_shape=1", "model.action_shape=1")
    policy = make_qac(kind, *COMMON, *shapes, *TOYS[kind].toy.split(), *overrides.split())
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


TOYS = {name: each for name, each in ALGORITHMS.items() if each.toy}


def quick(name: str, names: Iterable[str]) -> list[Any]:
    """Return the names, of which one is quick."""
    return [name, *(pytest.param(each, marks=pytest.mark.slow) for each in names if each != name)]


@pytest.mark.parametrize("kind", quick("iql", TOYS))
def test_the_best_action_of_the_data_is_found(kind: str) -> None:
    action = learn(kind, TOYS[kind].free, width=1.0, reward=peak)
    assert action.tolist() == pytest.approx([-0.4, 0.4], abs=0.12)


@pytest.mark.parametrize("kind", quick("td3_bc", [name for name in TOYS if TOYS[name].within is not None]))
def test_what_the_data_have_not_tried_is_not_done(kind: str) -> None:
    toward = learn(kind, TOYS[kind].within or "", width=0.3, reward=slope, iterations=500) * STATES[:, 0]
    assert (toward > 0.05).all()
    assert (toward < 0.33).all()
