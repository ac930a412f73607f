"""Actions from the policy's units to the environment's and back, and through every manager."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import VectorEnv

from ding_lite.envs import check_env, create_vector_env
from ding_lite.envs.actions import ActionUnits, random_actions, sample_masked
from ding_lite.utils.tree import tree_leaves, tree_map
from tests.envs.test_vector_env import MANAGERS, env_config
from tests.toys import Toy

BOX = Box(np.array([-3, 0], np.float32), np.array([1, 10], np.float32))
HYBRID = Dict({"action_type": Discrete(3), "action_args": BOX})


class EchoEnv(Toy):
    """Tells in `info` what action reached it: the float part, the discrete part, and the types of both."""

    def play(self, action: Any) -> Any:
        kind = action["action_type"] if isinstance(action, dict) else -1
        args = np.asarray(action["action_args"] if isinstance(action, dict) else action)
        info = {"args": args.astype(np.float64), "kind": int(kind), "is_float32": args.dtype == np.float32}
        return 0.0, False, False, info


class Builder:
    """Builds an EchoEnv in whatever process."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.space = space

    def __call__(self, cfg_env: Any) -> gymnasium.Env:
        return EchoEnv(action_space=self.space)


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


def test_unbounded_dimensions_pass_unchanged() -> None:
    box = Box(np.array([-np.inf, 0, -np.inf, 2]), np.array([np.inf, np.inf, 5, 4]), dtype=np.float64)
    action = np.array([[-70.0, 60.0, -50.0, 0.0], [70.0, -60.0, 50.0, 2.0]])
    # a bound on one side clips and does not scale; the last dimension is scaled
    expected = [[-70, 60, -50, 3], [70, 0, 5, 4]]
    for dtype in (np.float32, np.float64):
        assert received(make(box), action.astype(dtype)) == expected
    space = make(box).single_action_space
    assert space == Box(np.array([-np.inf, 0, -np.inf, -1]), np.array([np.inf, np.inf, 5, 1]), dtype=np.float64)


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


def test_hybrid_actions_are_dicts_of_batched_arrays(manager: str) -> None:
    env = make(HYBRID, 3, manager)
    action = {"action_type": np.array([2, 0, 1]), "action_args": np.array([[0, 0], [1, -1], [-9, 9]], np.float32)}
    info = env.step(action)[4]
    assert info["kind"].tolist() == [2, 0, 1]
    assert np.stack(info["args"]).tolist() == [[-1, 5], [1, 0], [-3, 10]]
    assert action["action_args"].tolist() == [[0, 0], [1, -1], [-9, 9]]
    env.close()


@pytest.mark.parametrize("space", [Discrete(4), MultiDiscrete([2, 3]), Tuple([Discrete(2), Discrete(3)])])
def test_spaces_of_policies_are_left_alone(space: gymnasium.Space[Any]) -> None:
    assert ActionUnits(space).space is space


# -- both directions --------------------------------------------------------------------------------------------------


def draw_space(rng: np.random.Generator, depth: int = 0) -> gymnasium.Space[Any]:
    """Draw a space of any kind, with bounds and starts of any size."""
    shape = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
    kind = rng.choice(["float", "integer", "bool", "discrete", "several", "bits", "dict"][: 7 - depth])
    if kind == "float":
        scale = 10.0 ** rng.integers(-3, 4)
        low, width = rng.normal(size=shape) * scale, rng.uniform(0.01, 2, shape) * scale
        width = np.where(rng.random(shape) < 0.2, 0.0, width)  # a dimension without width
        low, high = (
            np.where(rng.random(shape) < 0.2, -np.inf, low),
            np.where(rng.random(shape) < 0.2, np.inf, low + width),
        )
        dtype: Any = [np.float32, np.float64][rng.integers(2)]
        return Box(low.astype(dtype), high.astype(dtype), dtype=dtype)
    if kind == "integer":
        least = rng.integers(-100, 100, shape)
        return Box(least, least + rng.integers(0, 300, shape), dtype=np.int64)
    if kind == "bool":
        return Box(0, 1, shape, np.bool_)
    if kind == "discrete":
        return Discrete(int(rng.integers(1, 9)), start=int(rng.integers(-9, 9)))
    shape = shape or (2,)
    if kind == "several":
        return MultiDiscrete(rng.integers(1, 5, shape), start=rng.integers(-3, 3, shape) * rng.integers(0, 2))
    if kind == "bits":
        return MultiBinary(shape)
    return Dict({"action_type": draw_space(rng, 1), "action_args": draw_space(rng, 1)})


def contains(space: gymnasium.Space[Any], actions: Any) -> bool:
    """Whether every row of a batch is in the space."""
    number = len(next(tree_leaves(actions)))
    return all(space.contains(tree_map(lambda leaf, n=n: np.asarray(leaf[n]), actions)) for n in range(number))


@pytest.mark.parametrize("act_scale", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_an_action_comes_back_from_the_other_units_in_every_space(seed: int, act_scale: bool) -> None:
    space = draw_space(np.random.default_rng(seed))
    units = ActionUnits(space, act_scale)
    for one in (space, units.space):
        one.seed(seed)
    theirs, ours = (
        tree_map(lambda *leaves: np.stack(leaves), *(one.sample() for _ in range(20))) for one in (space, units.space)
    )
    kept = tree_map(np.copy, {"theirs": theirs, "ours": ours})
    taken = units.to_env(ours)
    for action in (theirs, taken):
        back = units.to_policy(action)
        assert contains(units.space, back)
        again = units.to_env(back)
        assert contains(space, again)
        for found, meant in zip(tree_leaves(again), tree_leaves(action), strict=True):
            assert found.dtype == meant.dtype
            # float32 has 24 bits, and an offset far from 0 costs some of them
            np.testing.assert_allclose(found, meant, rtol=1e-6, atol=1e-6 * np.abs(meant).max(initial=1e-3))
            assert not np.shares_memory(found, meant)
    for found, meant in zip(tree_leaves(ours), tree_leaves(kept["ours"]), strict=True):
        assert np.array_equal(found, meant)


def test_units_worked_by_hand() -> None:
    units = ActionUnits(Dict({"action_type": Discrete(3, start=1), "action_args": Box(-2, 2, (1,), np.float32)}))
    ours = {"action_type": np.array([0, 2]), "action_args": np.array([[0.5], [-1]], np.float32)}
    theirs = units.to_env(ours)
    assert {key: part.tolist() for key, part in theirs.items()} == {"action_type": [1, 3], "action_args": [[1], [-2]]}
    assert units.to_policy(theirs)["action_type"].tolist() == [0, 2]
    bits = ActionUnits(MultiBinary((2, 2)))
    assert bits.space == MultiDiscrete([2, 2, 2, 2])
    assert bits.to_env(np.array([[0, 1, 1, 0]])).tolist() == [[[0, 1], [1, 0]]]
    grid = ActionUnits(MultiDiscrete(np.array([[2, 3], [2, 2]]), start=np.array([[0, 0], [0, 5]])))
    assert grid.to_env(np.array([[1, 2, 0, 1]])).tolist() == [[[1, 2], [0, 6]]]
    assert grid.to_policy(np.array([[[1, 2], [0, 6]]])).tolist() == [[1, 2, 0, 1]]
    # the second dimension is always 4: it means nothing
    flat = ActionUnits(Box(np.array([0, 4], np.float32), np.array([2, 4], np.float32)))
    assert flat.to_policy(np.array([[1.5, 4]], np.float32)).tolist() == [[0.5, 0]]
    assert flat.to_env(np.array([[0.5, -1]], np.float32)).tolist() == [[1.5, 4]]
    # 127.5 rounds to the even 128; 0.26 * 10 = 2.6
    whole = Box(np.array([0, -10]), np.array([255, 10]), dtype=np.int64)
    action = ActionUnits(whole).to_env(np.array([[0, 0.26], [-1, 1], [9, -9]], np.float32))
    assert (action.tolist(), action.dtype) == ([[128, 3], [0, 10], [255, -10]], np.int64)
    assert ActionUnits(whole, act_scale=False).to_env(np.array([[3.4, 9.6]], np.float32)).tolist() == [[3, 10]]


class Scribbler(Toy):
    """Writes into the action that it got."""

    def play(self, action: Any) -> Any:
        for leaf in tree_leaves(action):
            if isinstance(leaf, np.ndarray):
                leaf[...] = 0
        return (0.0,)


@pytest.mark.parametrize("space", [MultiDiscrete([3, 3]), MultiBinary(3), Box(-1, 1, (2,), np.float32), HYBRID])
def test_an_environment_that_writes_into_its_action_changes_no_other(space: gymnasium.Space[Any], manager: str) -> None:
    build = lambda _: Scribbler(action_space=space)  # noqa: E731
    env = create_vector_env(env_config(manager={"type": manager}), 2, 7, True, builders=[build, build])
    env.reset()
    action = env.action_space.sample()
    before = tree_map(np.copy, action)
    env.step(action)
    for found, meant in zip(tree_leaves(action), tree_leaves(before), strict=True):
        assert np.array_equal(found, meant)
    env.close()


# -- random actions ---------------------------------------------------------------------------------------------------


def test_masked_draws_are_even_and_never_forbidden() -> None:
    mask = np.array([[[1, 0, 1, 1], [0, 1, 0, 0]], [[1, 1, 1, 1], [0, 0, 1, 1]]], np.int8)  # [N, M, A]
    rng = np.random.default_rng(0)
    drawn = np.stack([sample_masked(mask, rng) for _ in range(6000)])
    assert drawn.shape == (6000, 2, 2)
    for n, m in np.ndindex(2, 2):
        share = np.bincount(drawn[:, n, m], minlength=4) / 6000
        # the standard deviation of a share of 1/2 is 0.0065
        np.testing.assert_allclose(share, mask[n, m] / mask[n, m].sum(), atol=0.03)
    with pytest.raises(ValueError, match="at least one allowed action"):
        sample_masked(np.zeros((2, 3)), rng)


def test_random_actions_obey_a_mask_and_are_the_spaces_own_without_one() -> None:
    space, twin = MultiDiscrete([4, 4], seed=1), MultiDiscrete([4, 4], seed=1)
    assert random_actions(space, np.zeros((2, 3))).tolist() == twin.sample().tolist()
    obs = {"seen": np.zeros((2, 3)), "action_mask": np.array([[0, 0, 0, 1], [1, 0, 0, 0]])}
    assert random_actions(space, obs).tolist() == [3, 0]
