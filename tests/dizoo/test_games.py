"""The package's own games by hand: Memory, matrix games and Moving-v0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.envs import check_env, create_vector_env
from dizoo.gym_hybrid.envs.gym_hybrid_env import ACCELERATE, BRAKE, TURN, GymHybridEnv
from dizoo.matrix_game.envs.matrix_game_env import GAMES, MatrixGameEnv
from dizoo.memory.envs.memory_env import MemoryEnv


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("right", [True, False])
def test_the_cue_is_shown_once_and_the_decision_at_the_end_counts(length: int, right: bool) -> None:
    env = MemoryEnv(EasyDict(length=length))
    cues = []
    for seed in range(8):
        obs, _ = env.reset(seed=seed)
        cue = int(obs[0] > 0)
        cues.append(cue)
        for step in range(length):
            assert obs.dtype == np.float32
            assert env.observation_space.contains(obs)
            assert obs.tolist() == [(2 * cue - 1 if step == 0 else 0), float(step == length - 1)]
            last = step == length - 1
            action = cue if right == last else 1 - cue  # what is done before the end does not matter
            obs, reward, terminated, truncated, _ = env.step(action)
            assert (terminated, truncated) == (last, False)
            assert reward == (0.0 if not last else 1.0 if right else -1.0)
    assert set(cues) == {0, 1}


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
    assert env.step(act(BRAKE))[1:4] == (pytest.approx(1.0 - 0.001), True, False)


@pytest.mark.parametrize("place", [(0.999, 0.0), (0.0, 0.999)])
def test_leaving_the_field_costs_one_and_ends_the_episode(place: tuple[float, float]) -> None:
    env = start(place, (0.0, 0.0), angle=math.atan2(place[1], place[0]), speed=1.0)
    assert env.step(act(TURN))[1:3] == (-1.0, True)


def test_running_out_of_time_costs_one_and_ends_the_episode() -> None:
    env = start((0.0, 0.0), (0.5, 0.5))
    steps = [env.step(act(BRAKE))[1:3] for _ in range(199)]
    assert steps == [(pytest.approx(-0.001), False)] * 199
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
