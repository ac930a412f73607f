"""Actions of Boxes and of hybrid spaces, from the policy's side to the environment's, and through every manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import VectorEnv

from ding_lite.envs import EnvSpec, check_env, create_vector_env
from tests.envs.test_vector_env import MANAGERS, env_config

BOX = Box(np.array([-3, 0], np.float32), np.array([1, 10], np.float32))
HYBRID = Dict({"action_type": Discrete(3), "action_args": BOX})


@dataclass
class EchoEnv(gymnasium.Env):
    """Tells in `info` what action reached it: the float part, the discrete part, and the types of both."""

    action_space: gymnasium.Space[Any]
    observation_space = Box(0, 1, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        kind = action["action_type"] if isinstance(action, dict) else -1
        args = np.asarray(action["action_args"] if isinstance(action, dict) else action)
        info = {"args": args.astype(np.float64), "kind": int(kind), "is_float32": args.dtype == np.float32}
        return np.zeros(1, np.float32), 0.0, False, False, info


class Builder:
    """Builds an EchoEnv in whatever process."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.space = space

    def __call__(self, cfg_env: Any) -> gymnasium.Env:
        return EchoEnv(self.space)


def make(space: gymnasium.Space[Any], num_envs: int = 2, manager: str = "base", **options: Any) -> VectorEnv:
    cfg = env_config(manager={"type": manager}, **options)
    env = create_vector_env(cfg, num_envs, 7, True, builders=[Builder(space)] * num_envs)
    env.reset()
    return env


def received(env: VectorEnv, action: Any) -> list[list[float]]:
    """What floats the environments got."""
    return np.stack(env.step(action)[4]["args"]).tolist()


@pytest.fixture(params=MANAGERS)
def manager(request: pytest.FixtureRequest) -> str:
    return request.param


def test_minus_one_to_one_is_low_to_high_and_beyond_is_clipped(manager: str) -> None:
    env = make(BOX, 3, manager)
    # the middles are -1 and 5, the halves 2 and 5
    action = np.array([[-1, 1], [0.5, -0.2], [7, -7]], np.float32)
    before = action.copy()
    np.testing.assert_allclose(received(env, action), [[-3, 10], [0, 4], [1, 0]], atol=1e-6)
    assert env.step(action)[4]["is_float32"].all()
    assert np.array_equal(action, before)
    env.close()


def test_without_scaling_actions_are_in_the_environments_units_and_clipped(manager: str) -> None:
    env = make(BOX, 2, manager, act_scale=False)
    assert received(env, np.array([[-2, 7], [-4, 11]], np.float32)) == [[-2, 7], [-3, 10]]
    assert env.single_action_space == BOX
    env.close()


def test_unbounded_dimensions_pass_unchanged() -> None:
    box = Box(np.array([-np.inf, 0, -np.inf, 2]), np.array([np.inf, np.inf, 5, 4]), dtype=np.float64)
    action = np.array([[-70.0, 60.0, -50.0, 0.0], [70.0, -60.0, 50.0, 2.0]])
    # a bound on one side clips and does not scale; the last dimension is scaled
    expected = [[-70, 60, -50, 3], [70, 0, 5, 4]]
    for dtype in (np.float32, np.float64):
        assert received(make(box), action.astype(dtype)) == expected
    space = make(box).single_action_space
    assert space == Box(np.array([-np.inf, 0, -np.inf, -1]), np.array([np.inf, np.inf, 5, 1]), dtype=np.float64)


def test_actions_of_a_minus_one_to_one_box_keep_their_bits() -> None:
    action = np.random.default_rng(0).uniform(-1, 1, (2, 5)).astype(np.float32)
    assert np.array_equal(received(make(Box(-1, 1, (5,), np.float32)), action), action)


def test_the_spaces_are_the_policys_side(manager: str) -> None:
    for space, side in (
        (BOX, Box(-1, 1, (2,), np.float32)),
        (HYBRID, Dict({"action_type": Discrete(3), "action_args": Box(-1, 1, (2,), np.float32)})),
    ):
        env = make(space, 3, manager)
        assert env.single_action_space == side
        assert check_env(env_config(), [Builder(space)]).action_space == side
        assert check_env(env_config(act_scale=False), [Builder(space)]).action_space == space
        env.close()
    assert make(BOX, 3).action_space == Box(-1, 1, (3, 2), np.float32)


def test_a_check_of_the_environments_own_gives_the_policys_side_too() -> None:
    class Checked(Builder):
        def check(self, cfg_env: Any) -> EnvSpec:
            return EnvSpec(EchoEnv.observation_space, self.space, 0)

    assert check_env(env_config(), [Checked(BOX)]).action_space == Box(-1, 1, (2,), np.float32)


def test_hybrid_actions_are_dicts_of_batched_arrays(manager: str) -> None:
    env = make(HYBRID, 3, manager)
    action = {"action_type": np.array([2, 0, 1]), "action_args": np.array([[0, 0], [1, -1], [-9, 9]], np.float32)}
    info = env.step(action)[4]
    assert info["kind"].tolist() == [2, 0, 1]
    assert np.stack(info["args"]).tolist() == [[-1, 5], [1, 0], [-3, 10]]
    assert action["action_args"].tolist() == [[0, 0], [1, -1], [-9, 9]]
    env.close()


def test_random_actions_cover_the_range_and_are_reproducible() -> None:
    for space in (BOX, HYBRID):
        draws = []
        for env in (make(space, 4), make(space, 4)):
            samples = [env.action_space.sample() for _ in range(200)]
            draws.append(np.stack([one["action_args"] if isinstance(one, dict) else one for one in samples]))
        assert np.array_equal(draws[0], draws[1])
        assert draws[0].shape == (200, 4, 2)
        assert draws[0].min() < -0.95
        assert draws[0].max() > 0.95
        assert -1 <= draws[0].min() <= draws[0].max() <= 1


@pytest.mark.parametrize(
    "space", [Discrete(4), MultiDiscrete([2, 3]), Dict({"left": Box(0, 9, (2,)), "right": Discrete(2)})]
)
def test_other_spaces_are_left_alone(space: gymnasium.Space[Any]) -> None:
    env = make(space)
    assert env.single_action_space is env.unwrapped.single_action_space
    assert env.action_space is env.unwrapped.action_space


def test_pendulum_gets_its_torque() -> None:
    env = create_vector_env(env_config(env_id="Pendulum-v1"), 1, 0, True)
    (obs,), _ = env.reset()
    angle, speed = np.arctan2(obs[1], obs[0]), obs[2]
    reward = env.step(np.ones((1, 1), np.float32))[1]
    # torque 2 costs 0.001 * 2^2; -(angle^2 + 0.1 * speed^2 + 0.001 * torque^2)
    assert reward[0] == pytest.approx(-(angle**2 + 0.1 * speed**2 + 0.004), rel=1e-5)
