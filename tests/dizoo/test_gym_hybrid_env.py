"""Moving-v0 by hand: what each action does, rewards, and the three ends of an episode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.envs import check_env, create_vector_env
from dizoo.gym_hybrid.envs.gym_hybrid_env import ACCELERATE, BRAKE, TURN, GymHybridEnv


def make_cfg(**env: Any) -> EasyDict:
    create = dict(
        env=dict(type="gym_hybrid", import_names=["dizoo.gym_hybrid.envs.gym_hybrid_env"]), policy=dict(type="pdqn")
    )
    return compile_config((dict(env=env), create)).env


def start(place: tuple[float, float], target: tuple[float, float], angle: float = 0.0, speed: float = 0.0) -> Any:
    env: Any = GymHybridEnv(make_cfg())
    env.reset(seed=0)
    env._place, env._target = np.array(place), np.array(target)
    env._angle, env._speed = angle, speed
    return env


def act(kind: int, acceleration: float = 0.0, turn: float = 0.0) -> dict[str, Any]:
    return {"action_type": kind, "action_args": np.array([acceleration, turn], np.float32)}


def test_each_action_uses_its_own_argument() -> None:
    env = start((0.0, 0.0), (0.5, 0.0), angle=math.pi / 2)
    obs, *_ = env.step(act(ACCELERATE, 0.8, turn=1.0))  # speed 0.4 upwards: 0.4 * 0.005
    np.testing.assert_allclose(obs[:5], [0.0, 0.002, 0.4, 0.0, 1.0], atol=1e-6)
    obs, *_ = env.step(act(TURN, 0.9, turn=-1.0))  # by a quarter to the right, then as far to the right
    np.testing.assert_allclose(obs[:5], [0.002, 0.002, 0.4, 1.0, 0.0], atol=1e-6)
    obs, *_ = env.step(act(BRAKE, 0.9, turn=1.0))  # speed 0.3
    np.testing.assert_allclose(obs[:5], [0.0035, 0.002, 0.3, 1.0, 0.0], atol=1e-6)
    assert obs[9] == pytest.approx(3 / 200)
    env._speed = 0.05
    assert env.step(act(BRAKE))[0][2] == 0.0  # not backwards


def test_standing_still_in_the_target_ends_the_episode_and_passing_through_does_not() -> None:
    env = start((0.5, 0.0), (0.52, 0.0), speed=0.15)
    obs, _, terminated, *_ = env.step(act(BRAKE))  # speed 0.05
    assert obs[8] == 1.0
    assert not terminated
    _, reward, terminated, truncated, _ = env.step(act(BRAKE))
    assert reward == pytest.approx(1.0 - 0.001)
    assert terminated
    assert not truncated


@pytest.mark.parametrize("place", [(0.999, 0.0), (0.0, 0.999)])
def test_leaving_the_field_costs_one_and_ends_the_episode(place: tuple[float, float]) -> None:
    env = start(place, (0.0, 0.0), angle=math.atan2(place[1], place[0]), speed=1.0)
    _, reward, terminated, *_ = env.step(act(TURN))
    assert reward == -1.0
    assert terminated


def test_running_out_of_time_costs_one_and_ends_the_episode() -> None:
    env = start((0.0, 0.0), (0.5, 0.5))
    for _ in range(199):
        _, reward, terminated, *_ = env.step(act(BRAKE))
        assert reward == pytest.approx(-0.001)
        assert not terminated
    obs, reward, terminated, truncated, _ = env.step(act(BRAKE))
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert obs[9] == 1.0


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_a_vector_of_games_maps_minus_one_to_one_to_the_arguments_bounds(manager: str) -> None:
    cfg = make_cfg(manager=dict(type=manager))
    space: Any = check_env(cfg).action_space
    np.testing.assert_array_equal(space["action_args"].low, [-1.0, -1.0])
    env = create_vector_env(cfg, num_envs=2, seed=0, training=True)
    env.reset()
    action = {"action_type": np.array([ACCELERATE] * 2), "action_args": np.array([[-1.0, 0], [1.0, 0]], np.float32)}
    obs, *_ = env.step(action)
    np.testing.assert_allclose(obs[:, 2], [0.0, 0.5])
    env.close()
