"""The matrix games pay what their papers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from easydict import EasyDict

from dizoo.matrix_game.envs.matrix_game_env import GAMES, MatrixGameEnv

PAYOFFS = [("Climbing-v0", (0, 0), 11), ("Climbing-v0", (1, 2), 0), ("Climbing-v0", (2, 1), 6),
           ("Climbing-v0", (0, 1), -30), ("Penalty-v0", (0, 2), 10), ("Penalty-v0", (2, 2), -7),
           ("Penalty-v0", (1, 1), 2)]  # fmt: skip


def make(env_id: str, repeats: int = 3) -> MatrixGameEnv:
    return MatrixGameEnv(EasyDict(env_id=env_id, penalty=-7.0, repeats=repeats))


def play(env: MatrixGameEnv, *actions: tuple[int, int]) -> list[tuple[float, bool, bool]]:
    env.reset(seed=0)
    return [env.step(np.array(action))[1:4] for action in actions]


@pytest.mark.parametrize(("env_id", "action", "reward"), PAYOFFS)
def test_a_repeated_game_pays_an_entry_each_time_and_is_then_truncated(env_id: str, action: Any, reward: int) -> None:
    over = [(reward, False, step == 2) for step in range(3)]
    assert play(make(env_id), action, action, action) == over


@pytest.mark.parametrize(
    ("first", "second", "reward"), [(0, (1, 0), 7), (1, (1, 1), 8), (1, (0, 1), 1), (1, (0, 0), 0)]
)
def test_the_first_agent_chooses_the_second_matrix(first: int, second: tuple[int, int], reward: int) -> None:
    for other in (0, 1):
        assert play(make("TwoStep-v0"), (first, other), second) == [(0, False, False), (reward, True, False)]


@pytest.mark.parametrize("env_id", GAMES)
def test_every_agent_sees_which_matrix_is_played(env_id: str) -> None:
    env = make(env_id)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    after = env.step(np.array([1, 0]))[0]
    assert env.observation_space.contains(after)
    assert (after["agent_state"] == after["global_state"]).all()
    assert after["global_state"].tolist() == ([0, 0, 1] if env_id == "TwoStep-v0" else [1])
