"""Every environment of dizoo: spaces, a few steps by every manager, and one line where its package is missing."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete

from ding_lite.config import compile_config
from ding_lite.envs import check_env, create_vector_env
from ding_lite.utils import ENV_REGISTRY
from ding_lite.utils.registry import ConfigError
from dizoo.minigrid.record_multiroom import record
from tests.dizoo.extras import EXTRAS, needs

CLASSIC = "dizoo.classic_control"
# env.type: (module, shape of an observation, actions or Box's dimensions, further keys of env)
ENVS: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "cartpole": (f"{CLASSIC}.cartpole.envs.cartpole_env", 4, 2, {}),
    "carracing": ("dizoo.box2d.carracing.envs.carracing_env", (3, 96, 96), 5, {}),
    "pendulum": (f"{CLASSIC}.pendulum.envs.pendulum_env", 3, (1,), {}),
    "acrobot": (f"{CLASSIC}.acrobot.envs.acrobot_env", 6, 3, {}),
    "mountain_car": (f"{CLASSIC}.mountain_car.envs.mtcar_env", 2, 3, {"scale_obs": True}),
    "bipedalwalker": ("dizoo.box2d.bipedalwalker.envs.bipedalwalker_env", 24, (4,), {}),
    "frozen_lake": ("dizoo.frozen_lake.envs.frozen_lake_env", 16, 4, {}),
    "cliffwalking": ("dizoo.cliffwalking.envs.cliffwalking_env", 48, 4, {}),
    "taxi": ("dizoo.taxi.envs.taxi_env", 34, 6, {}),
    "lunarlander": ("dizoo.box2d.lunarlander.envs.lunarlander_env", 8, 4, {}),
    "mujoco": ("dizoo.mujoco.envs.mujoco_env", 11, (3,), {}),
    # 7 x 7 cells of 3 numbers, 96 letters of 28 kinds
    "minigrid": ("dizoo.minigrid.envs.minigrid_env", 7 * 7 * 3 + 96 * 28, 7, {}),
    "bsuite": ("dizoo.bsuite.envs.bsuite_env", 10 * 5, 3, {}),  # a board of catch
    "procgen": ("dizoo.procgen.envs.procgen_env", (3, 64, 64), 15, {}),
}
MASKED: dict[str, Any] = {"connect_four": ("dizoo.pettingzoo.envs.connect_four_env", 84, 7, {})}
FEW = ("carracing", "pendulum", "minigrid")  # whose processes are compared in each run of the tests


def make_cfg(name: str, **env: Any) -> EasyDict:
    module, _, _, more = (ENVS | MASKED)[name]
    create = dict(env=dict(type=name, import_names=[module]), policy=dict(type="dqn"))
    return compile_config((dict(env=more | env), create)).env


def make_env(name: str, **env: Any) -> gymnasium.Env:
    cfg = make_cfg(name, **env)  # compiling imports the module that registers the name
    return ENV_REGISTRY.find(name)(cfg)


def play_one(env: gymnasium.Env, seed: int) -> list[np.ndarray]:
    """Return observations and rewards of an episode of at most 100 steps, of images 8, with random actions."""
    obs, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    found = [np.ravel(obs)]
    for _ in range(8 if np.ndim(obs) == 3 else 100):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert obs in env.observation_space
        found.append(np.append(obs, float(reward)))
        if terminated or truncated:
            break
    return found


@pytest.mark.parametrize("name", [*ENVS, "BipedalWalkerHardcore-v3"])
def test_an_episode_does_not_depend_on_those_before(name: str) -> None:
    """Otherwise a resumed run could not replay it."""
    more = {} if name in ENVS else {"env_id": name}
    name = name if name in ENVS else "bipedalwalker"
    needs(EXTRAS.get(name))
    old, seeds = make_env(name, **more), range(3)
    earlier = [play_one(old, seed) for seed in seeds]
    assert len({np.concatenate(episode).tobytes() for episode in earlier}) > 1, "all episodes are alike"
    for seed in seeds:
        again, alone = play_one(old, seed), play_one(make_env(name, **more), seed)
        np.testing.assert_equal(again, alone)


@pytest.mark.parametrize("name", ENVS)
def test_spaces_are_what_the_table_says(name: str) -> None:
    needs(EXTRAS.get(name))
    _, shape, actions, _ = ENVS[name]
    spec = check_env(make_cfg(name))
    assert isinstance(spec.observation_space, Box)
    assert spec.observation_space.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert spec.observation_space.dtype == (np.uint8 if isinstance(shape, tuple) else np.float32)
    space = spec.action_space
    assert actions == (int(space.n) if isinstance(space, Discrete) else space.shape)


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in ENVS])
def test_the_managers_step_it_to_the_same_observations(name: str) -> None:
    needs(EXTRAS.get(name))
    managers = (dict(type=manager) for manager in ("base", "subprocess"))
    first, second = (play(make_cfg(name, manager=manager, max_episode_steps=6)) for manager in managers)
    np.testing.assert_array_equal(first, second)


def play(cfg: EasyDict, steps: int = 10) -> np.ndarray:
    env = create_vector_env(cfg, num_envs=2, seed=0, training=True)
    obs, _ = env.reset()
    rows = [obs.copy()]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert reward.shape == terminated.shape == truncated.shape == info["episode_length"].shape == (2,)
        rows.append(obs.copy())
    env.close()
    return np.stack(rows)


@pytest.mark.parametrize(("continuous", "actions"), [(False, Discrete(5)), (True, Box(-1, 1, (3,)))])
def test_car_racing_shows_images_with_their_channels_first(continuous: bool, actions: gymnasium.Space[Any]) -> None:
    needs("Box2D")
    module = "dizoo.box2d.carracing.envs.carracing_env"
    create = dict(env=dict(type="carracing", import_names=[module]), policy=dict(type="ppo"))
    env = create_vector_env(compile_config((dict(env=dict(continuous=continuous)), create)).env, 1, 0, True)
    obs, _ = env.reset()
    assert (obs.shape, obs.dtype) == ((1, 3, 96, 96), np.uint8)
    assert env.single_action_space == actions
    obs, reward, *_ = env.step(env.action_space.sample())
    assert obs.max() > obs.min()
    assert reward.dtype == np.float32
    env.close()


def test_lunar_lander_has_four_actions_unless_a_key_or_its_id_says_otherwise() -> None:
    needs("Box2D")
    for kwargs in ({}, dict(continuous=False)):
        assert isinstance(check_env(make_cfg("lunarlander", **kwargs)).action_space, Discrete)
    with pytest.raises(ConfigError, match=r"env\.continuous=False contradicts env\.env_id 'LunarLanderContinuous-v3'"):
        check_env(make_cfg("lunarlander", env_id="LunarLanderContinuous-v3", continuous=False))


def test_an_experiment_of_bsuite_keeps_its_arms_and_draws_its_noise_anew() -> None:
    needs("bsuite")
    env = make_env("bsuite", env_id="bandit_noise/0")
    arms = []
    for seed in (0, 1):
        rewards = []
        for arm in range(11):
            env.reset(seed=seed)
            _, reward, terminated, truncated, _ = env.step(arm)
            assert (terminated, truncated) == (True, False)
            rewards.append(float(reward))
        arms.append(rewards)
    noise = np.array(arms[0]) - np.array(arms[1])  # of the rewards, which are 0 to 1 in steps of 0.1
    assert abs(noise[0]) > 1e-6
    np.testing.assert_allclose(noise, noise[0])  # one draw for each seed
    assert sorted(np.round(np.array(arms[0]) - min(arms[0]), 6)) == pytest.approx(np.linspace(0, 1, 11))
    with pytest.raises(ConfigError, match=r"^env\.env_id 'bandit_noize/0': bsuite has no such experiment"):
        make_env("bsuite", env_id="bandit_noize/0")


def test_a_game_of_procgen_is_cut_at_its_limit_and_has_as_many_levels_as_it_is_told() -> None:
    needs("procgen")
    env = make_env("procgen", env_id="maze")
    first, _ = env.reset(seed=0)
    for step in range(1, 501):
        last, _, terminated, truncated, _ = env.step(4)  # stands still
        assert (terminated, truncated) == (False, step == 500)
    np.testing.assert_array_equal(last, first)  # and not the next level
    single = make_env("procgen", env_id="maze", num_levels=1, start_level=3)
    assert len({single.reset(seed=seed)[0].tobytes() for seed in range(3)}) == 1
    assert len({env.reset(seed=seed)[0].tobytes() for seed in range(3)}) == 3


def fall(training: bool = True, **env: Any) -> tuple[list[float], list[float]]:
    """Return what a bipedal walker that moves at random learns from and its returns, up to the step after its fall."""
    venv = create_vector_env(make_cfg("bipedalwalker", **env), num_envs=1, seed=0, training=training)
    venv.action_space.seed(0)
    venv.reset()
    rewards: list[float] = []
    returns: list[float] = []
    ended = False
    while len(returns) < 400:
        last = ended
        _, reward, terminated, _, info = venv.step(venv.action_space.sample())
        rewards.append(float(reward[0]))
        returns.append(float(info["episode_return"][0]))
        if last:
            break
        ended = bool(terminated[0])
    venv.close()
    return rewards, returns


@pytest.mark.parametrize(("manager", "training"), [("base", True), ("base", False), ("subprocess", True)])
def test_a_walker_with_clipped_rewards_has_true_returns(manager: str, training: bool) -> None:
    needs("Box2D")
    rewards, returns = fall(training)
    assert rewards[-2] == -100.0  # the fall
    clipped, same_returns = fall(training, rew_clip=True, manager=dict(type=manager))
    assert clipped == [max(-10.0, reward) for reward in rewards]
    assert same_returns == returns
    assert returns[-2] == pytest.approx(sum(rewards[:-1]), abs=1e-3)
    assert returns[-1] == pytest.approx(rewards[-1])  # of the next episode


@pytest.mark.parametrize(("full_obs", "cells"), [(False, 7 * 7), (True, 8 * 8)])
def test_minigrids_one_hot_vector_says_the_same_as_its_image(full_obs: bool, cells: int) -> None:
    needs("minigrid")
    env = make_env("minigrid", onehot_obs=True, full_obs=full_obs)
    vector, _ = env.reset(seed=3)
    vector, *_ = env.step(0)  # to the left: from facing right, 0, to facing up, 3
    assert vector.shape == (cells * (11 + 6 + 4) + 4,)
    assert vector in env.observation_space
    assert np.argmax(vector[-4:]) == 3
    cell = vector[:-4].reshape(cells, 11 + 6 + 4)
    assert (cell.sum(axis=1) == 3).all()
    parts = [part.argmax(axis=1) for part in np.split(cell, [11, 17], axis=1)]
    room: Any = env.unwrapped
    image = room.grid.encode() if full_obs else room.gen_obs()["image"]
    expected = image.reshape(cells, 3).copy()
    if full_obs:
        expected[1 * 8 + 1] = (10, 0, 3)  # the agent, red, facing up, in the first corner
    np.testing.assert_array_equal(np.stack(parts, axis=1), expected)


def test_minigrids_bonus_is_the_part_of_the_diagonal_that_a_step_comes_nearer() -> None:
    """From (1, 1) to (2, 1) in a grid of 8 x 8 cells with the goal at (6, 6); then a turn, then (2, 2)."""
    needs("minigrid")
    env = make_env("minigrid", move_bonus=True)
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (2, 1, 2)]
    diagonal = math.hypot(8, 8)
    distances = [math.hypot(5, 5), math.hypot(4, 5), math.hypot(4, 4)]
    first, second = (before - after for before, after in itertools.pairwise(distances))
    assert rewards == pytest.approx([first / diagonal, 0.0, second / diagonal])


def test_demonstrations_of_multiroom_reach_the_goal_on_the_shortest_way(tmp_path: Path) -> None:
    needs("minigrid")
    config = str(Path(__file__).parents[2] / "dizoo/minigrid/config/minigrid_r2d3_config.py")
    record(config, str(tmp_path / "data.npz"), episodes=3)
    data = np.load(tmp_path / "data.npz")
    ends = np.flatnonzero(data["done"])
    assert len(ends) == 3
    assert ends[-1] == len(data["obs"]) - 1
    np.testing.assert_array_equal(data["reward"].nonzero()[0], ends)
    assert data["reward"][ends].min() > 0.6  # 1 - 0.9 * steps / 120
    lengths = np.diff(np.concatenate([[-1], ends]))
    np.testing.assert_allclose(data["reward"][ends], 1 - 0.9 * lengths / 120, rtol=1e-6)
    goes_on = np.setdiff1d(np.arange(len(data["obs"])), ends)
    np.testing.assert_array_equal(data["next_obs"][goes_on], data["obs"][goes_on + 1])


def test_connect_four_is_one_side_of_a_game_against_random_play() -> None:
    needs("pettingzoo")
    games = []
    for env in (make_env("connect_four"), make_env("connect_four")):
        for seed in range(30):
            obs, _ = env.reset(seed=seed)
            begins, over, turns = not obs["observation"].any(), False, 0
            while not over:
                assert obs in env.observation_space
                column = int(obs["action_mask"].argmax())
                assert obs["observation"].reshape(2, 6, 7).sum((0, 1))[column] < 6
                obs, reward, over, _, _ = env.step(column)
                turns += 1
                assert obs["observation"][:42].sum() == turns
                assert over or reward == 0.0
            games.append((begins, turns, reward))
    assert games[:30] == games[30:]
    assert {begins for begins, _, _ in games} == {True, False}
    assert {-1.0, 1.0} <= {reward for *_, reward in games}
    assert all(reward != 1.0 or turns >= 4 for _, turns, reward in games)


@pytest.mark.parametrize(("name", "package"), [pair for pair in EXTRAS.items() if pair[0] in ENVS | MASKED])
def test_a_missing_package_is_one_line_that_names_the_extra(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in {package, *(key for key in sys.modules if key.startswith(package + "."))}:
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails then
    extra = package.lower()
    with pytest.raises(ConfigError, match=rf"^This environment needs the extra '{extra}' \(.*\)") as error:
        check_env(make_cfg(name))
    assert str(error.value).endswith(f"pip install 'ding_lite[{extra}]'.")
