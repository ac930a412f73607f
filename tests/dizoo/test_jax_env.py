"""Simulators that are functions of JAX, where JAX is installed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from gymnasium.spaces import Dict

from ding_lite.envs.batched import BatchedVectorEnv
from dizoo.jax_env import JaxVectorEnv

jax = pytest.importorskip("jax")
CPU = torch.device("cpu")


class State(NamedTuple):
    obs: Any
    reward: Any
    done: Any


class Line:
    """Walks on a line from a random place between 0 and 1; an episode terminates beyond 2."""

    action_size = 1

    def _state(self, place: Any, reward: Any) -> State:
        return State({"state": place[None], "privileged_state": jax.numpy.stack((place, reward))}, reward, place > 2)

    def reset(self, key: Any) -> State:
        return self._state(jax.random.uniform(key), jax.numpy.zeros(()))

    def step(self, state: State, action: Any) -> State:
        return self._state(state.obs["state"][0] + action[0], action[0])


def create(limit: int = 0) -> BatchedVectorEnv:
    env = BatchedVectorEnv(JaxVectorEnv(Line(), 3, limit), CPU, "line")
    env.reset(seed=4)
    return env


def test_a_dict_observation_keeps_its_keys_and_shapes() -> None:
    env = create()
    assert isinstance(env.single_observation_space, Dict)
    obs = env.reset(seed=0)[0]
    shapes = {"state": (3, 1), "privileged_state": (3, 2)}
    assert {key: tuple(leaf.shape) for key, leaf in obs.items()} == shapes
    final = env.step(torch.zeros(3, 1))[4]["final_obs"]
    assert {key: tuple(leaf.shape) for key, leaf in final.items()} == shapes


def test_only_the_environments_whose_episodes_end_begin_anew() -> None:
    env = create()
    before = env.step(torch.zeros(3, 1))[0]["state"].clone()
    obs, reward, terminated, truncated, info = env.step(torch.tensor([[1.0], [0.5], [-1.0]]))
    assert terminated.tolist() == [False] * 3  # places below 2
    torch.testing.assert_close(obs["state"], before + torch.tensor([[1.0], [0.5], [-1.0]]))
    obs, reward, terminated, truncated, info = env.step(torch.tensor([[1.0], [0.0], [1.0]]))  # the first: beyond 2
    assert terminated.tolist() == [True, False, False]
    assert not truncated.any()
    assert reward.tolist() == [1, 0, 1]
    assert 0 <= obs["state"][0] < 1 < 2 < info["final_obs"]["state"][0]
    torch.testing.assert_close(obs["state"][1:], info["final_obs"]["state"][1:])


def test_the_limit_counts_the_steps_of_each_episode() -> None:
    env, cut = create(limit=3), []
    for t in range(7):  # the first environment terminates in step 2, and is truncated 3 steps later
        action = torch.tensor([[2.0 if t < 2 else 0.0], [0.0], [0.0]])
        cut.append(env.step(action)[3].tolist())
    assert [row[0] for row in cut] == [False] * 4 + [True] + [False] * 2
    assert [row[1] for row in cut] == [False, False, True, False, False, True, False]


def test_a_restored_state_gives_the_same_steps_to_the_bit() -> None:
    env, other = create(limit=4), create(limit=4)
    env.step(torch.ones(3, 1))
    other.load_state_dict(env.state_dict())
    for _ in range(6):
        action = torch.full((3, 1), 0.4)
        here, there = env.step(action), other.step(action)
        assert all(torch.equal(here[0][key], there[0][key]) for key in here[0])
        assert torch.equal(here[4]["episode_return"], there[4]["episode_return"])
    assert np.isfinite(here[0]["state"].numpy()).all()


def test_first_episodes_may_begin_at_random_steps() -> None:
    env = BatchedVectorEnv(JaxVectorEnv(Line(), 3, 50), CPU, "line", random_elapsed_steps=True)
    env.reset(seed=4)
    first = torch.from_dlpack(env.unwrapped.elapsed_steps).clone()  # type: ignore[attr-defined]
    assert len(set(first.tolist())) > 1
    truncated = [env.step(torch.zeros(3, 1))[3] for _ in range(50)]
    assert torch.equal(torch.stack(truncated).int().argmax(0), 49 - first)
