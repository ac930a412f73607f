"""Level-based foraging is an environment of several agents, whose episodes end when the food is eaten."""

from __future__ import annotations

from typing import Any

import numpy as np
from easydict import EasyDict

from dizoo.lbforaging.envs.lbforaging_env import LBForagingEnv
from tests.dizoo.extras import needs

NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)


def make() -> Any:
    needs("lbforaging")
    env = LBForagingEnv(EasyDict(env_id="Foraging-8x8-2p-2f-coop-v3", kwargs={}, max_episode_steps=0))
    env.reset(seed=0)
    return env


def place(env: Any, players: list[tuple[int, int]], food: dict[tuple[int, int], int]) -> None:
    """Put players of level 1, and food, on an empty grid."""
    game = env.unwrapped
    game.field[:] = 0
    for where, level in food.items():
        game.field[where] = level
    game._food_spawned = sum(food.values())
    for player, where in zip(game.players, players, strict=True):
        player.position, player.level = where, 1
    game._gen_valid_moves()


def test_food_that_both_load_is_worth_its_share_and_the_last_one_ends_the_episode() -> None:
    env = make()
    place(env, [(2, 1), (2, 3)], {(2, 2): 2, (5, 5): 2})
    both = np.array([LOAD, LOAD])
    obs, reward, terminated, truncated, _ = env.step(both)
    assert (reward, terminated, truncated) == (0.5, False, False)
    assert env.observation_space.contains(obs)
    own = [[5, 5, 2, -1, -1, 0, 2, 1, 1, 2, 3, 1], [5, 5, 2, -1, -1, 0, 2, 3, 1, 2, 1, 1]]  # itself first
    assert obs["agent_state"].tolist() == own
    assert obs["global_state"].tolist() == [*own[0], *own[1]]
    place(env, [(5, 4), (5, 6)], {(5, 5): 2})
    assert env.step(both)[1:4] == (1.0, True, False)


def test_a_mask_forbids_walls_food_and_loading_where_there_is_none() -> None:
    env = make()
    place(env, [(0, 0), (3, 3)], {(3, 4): 2})
    obs, *_ = env.step(np.array([NONE, NONE]))
    allowed = [{NONE, SOUTH, EAST}, {NONE, NORTH, SOUTH, WEST, LOAD}]
    assert [set(np.flatnonzero(mask)) for mask in obs["action_mask"]] == allowed
    assert env.observation_space.contains(obs)


def test_the_limit_of_steps_truncates() -> None:
    env = make()
    place(env, [(0, 0), (7, 7)], {(3, 4): 2})
    ends = [env.step(np.array([NONE, NONE]))[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]
