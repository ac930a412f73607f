"""Atari through ale-py's engine: frames, lives, ends and true scores, on the real games."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.vector import VectorEnv

from ding_lite.config import compile_config
from ding_lite.envs.vector_env import check_env, create_vector_env
from ding_lite.utils.registry import ConfigError
from dizoo.atari.envs.atari_env import find_rom, find_sticky
from tests.envs.test_vector_env import env_config

MANAGERS = ("base", "subprocess", "native")
FIRE = 1  # in Breakout's minimal action set: NOOP, FIRE, RIGHT, LEFT


def atari_config(env_id: str, manager: str = "native", num_threads: int = 2, **overrides: Any) -> EasyDict:
    return env_config("atari", env_id=env_id, manager={"type": manager, "num_threads": num_threads}, **overrides)


def make(env_id: str, num_envs: int = 2, *, seed: int = 0, training: bool = True, **overrides: Any) -> VectorEnv:
    return create_vector_env(atari_config(env_id, **overrides), num_envs, seed, training)


def play(env: Any, num_steps: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Random actions; everything that came back, as copies."""
    obs, info = env.reset()
    seen: list[tuple[Any, ...]] = [(obs.copy(), info["lives"].copy())]
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        obs, reward, terminated, truncated, info = env.step(rng.integers(0, env.single_action_space.n, env.num_envs))
        totals = info["episode_return"], info["episode_length"]
        lives = info["lives"].copy(), info.get("part_ended", np.zeros(0))
        seen.append((obs.copy(), reward, terminated, truncated, *totals, *lives, info.get("final_obs", np.zeros(0))))
    env.close()
    return seen


def assert_same(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> None:
    for one, other in zip(left, right, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


# -- names and spaces -------------------------------------------------------------------------------------------------


def test_every_registered_id_of_ale_py_names_a_rom() -> None:
    gymnasium.register_envs(ale_py)
    ids = [name for name in gymnasium.registry if name.startswith("ALE/") or name.endswith("NoFrameskip-v4")]
    assert len(ids) > 150
    for env_id in ids:
        assert find_rom(env_id) == gymnasium.registry[env_id].kwargs["game"]


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("PnogNoFrameskip-v4", r"no Atari ROM 'Pnog'.*Did you mean 'Pong'"),
        ("ALE/Breakot-v5", r"no Atari ROM 'Breakot'.*Did you mean 'Breakout'"),
        ("ms_packman", r"no Atari ROM 'ms_packman'.*Did you mean 'ms_pacman'"),
        ("Pong-v0", r"no Atari ROM"),
    ],
)
def test_an_unknown_game_is_a_config_error_that_names_the_closest(env_id: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_env(atari_config(env_id))


def test_a_missing_rom_file_is_a_config_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"the ROM 'pong' cannot be read.*pong\.bin"):
        check_env(atari_config("PongNoFrameskip-v4"))


@pytest.mark.parametrize(
    ("key", "value"), [("frame_skip", 0), ("noop_max", -1), ("noop_max", 10**6), ("sticky_action_prob", 1.5)]
)
def test_numbers_that_the_engine_cannot_take_are_refused_when_the_config_compiles(key: str, value: float) -> None:
    env = {"env_id": "pong", key: value}
    with pytest.raises(ConfigError, match=rf"^env\.{key}: expected .*, got {value}"):
        compile_config((dict(env=env), dict(env=dict(type="atari"), policy=dict(type="dqn"))))


@pytest.mark.parametrize(("version", "sticky"), [(4, -0.1), (4, 1.5), (4, 0.25), (0, 0.5)])
def test_sticky_actions_that_cannot_be_are_a_config_error(version: int, sticky: float) -> None:
    with pytest.raises(ConfigError, match=r"env\.sticky_action_prob.*name the game 'pong'"):
        check_env(atari_config(f"PongNoFrameskip-v{version}", sticky_action_prob=sticky))


def test_sticky_actions_are_those_of_the_id_or_of_the_key() -> None:
    gymnasium.register_envs(ale_py)
    for version in (0, 4):
        env_id = f"PongNoFrameskip-v{version}"
        expected = gymnasium.registry[env_id].kwargs["repeat_action_probability"]
        assert find_sticky(atari_config(env_id)) == expected
        assert find_sticky(atari_config(env_id, sticky_action_prob=expected)) == expected
    assert find_sticky(atari_config("pong", sticky_action_prob=0.5)) == 0.5


@pytest.mark.parametrize(
    "manager", ["native", *(pytest.param(m, marks=pytest.mark.slow) for m in ("base", "subprocess"))]
)
def test_the_usual_limit_and_that_of_the_config_are_known_to_an_evaluation(manager: str) -> None:
    for options, limit in (({}, 27_000), ({"frame_skip": 1}, 108_000), ({"max_episode_steps": 9}, 9)):
        with closing(make("pong", 1, manager=manager, training=False, **options)) as env:
            assert env.metadata["max_episode_steps"] == limit


@pytest.mark.parametrize(("env_id", "num_actions", "frame_stack"), [("pong", 6, 0), ("ms_pacman", 9, 4)])
def test_the_spaces_are_known_before_an_environment_is_built(env_id: str, num_actions: int, frame_stack: int) -> None:
    cfg = atari_config(env_id, frame_stack=frame_stack)
    spec = check_env(cfg)
    assert spec.action_space == gymnasium.spaces.Discrete(num_actions)
    assert spec.observation_space.shape == (max(1, frame_stack), 84, 84)
    for manager in ("native", "base"):
        env: Any = make(env_id, 1, manager=manager, frame_stack=frame_stack)
        assert (spec.observation_space, spec.action_space) == (env.single_observation_space, env.single_action_space)
        assert spec.frame_stack == env.frame_stack == (4 if frame_stack == 4 else 0)
        assert env.reset()[0].shape == (1, max(1, frame_stack), 84, 84)


# -- what every manager gives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "num_steps", "limit"), [pytest.param("pong", 90, 40, marks=pytest.mark.slow), ("breakout", 400, None)]
)
def test_all_managers_give_the_same_frames_rewards_and_ends(env_id: str, num_steps: int, limit: int | None) -> None:
    runs = [play(make(env_id, 2, manager=name, max_episode_steps=limit), num_steps) for name in MANAGERS]
    assert sum((row[2] | row[3]).sum() for row in runs[0][1:]) >= 4, "the runs must go over ends of games"
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_stack_is_zeros_and_one_frame_at_a_start_and_rolls_through_the_end(manager: str) -> None:
    run = play(make("pong", 2, manager=manager, max_episode_steps=10), 25)
    previous = run[0][0]
    assert not previous[:, :3].any()
    assert previous[:, 3].any()
    for obs, _, terminated, truncated, _, _, _, _, final_obs in run[1:]:
        assert truncated.all() == truncated.any()
        assert not terminated.any()
        successor = final_obs if truncated.any() else obs
        np.testing.assert_array_equal(successor[:, :3], previous[:, 1:])
        if truncated.any():
            assert not obs[:, :3].any()
            assert obs[:, 3].any()
        previous = obs
    assert [bool(row[3].any()) for row in run[1:]] == [step % 10 == 0 for step in range(1, 26)]


def test_the_engine_never_overwrites_an_observation_that_it_returned() -> None:
    env = make("pong")
    kept = [env.reset()[0]]
    copies = [kept[0].copy()]
    for _ in range(50):
        kept.append(env.step(np.zeros(2, np.int64))[0])
        copies.append(kept[-1].copy())
    env.close()
    del env
    for ours, then in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(ours, then)


# -- scores and lives -------------------------------------------------------------------------------------------------


def test_rewards_are_clipped_for_training_and_returns_are_not() -> None:
    runs = {clip: play(make("ms_pacman", 2, clip_rewards=clip), 200) for clip in (True, False)}
    true, clipped = (np.array([row[1] for row in runs[clip][1:]]) for clip in (False, True))
    assert set(np.unique(true)) >= {0, 10}
    np.testing.assert_array_equal(clipped, np.sign(true))
    for run in runs.values():
        np.testing.assert_array_equal(np.array([row[4] for row in run[1:]]), true.cumsum(0))


def test_a_lost_life_in_breakout_is_marked_and_the_game_stays_whole() -> None:
    runs = {training: play(make("breakout", 2, training=training), 700) for training in (True, False)}
    frames = {training: [row[0] for row in run] for training, run in runs.items()}
    np.testing.assert_array_equal(frames[True], frames[False])  # lives change nothing in the game
    lives = np.array([row[-3] if len(row) > 2 else row[1] for row in runs[True]])
    lost = np.array([row[7] for row in runs[True][1:]])
    ended = np.array([row[2] for row in runs[True][1:]])
    assert (lives[0] == 5).all()
    np.testing.assert_array_equal(lost, (np.diff(lives, axis=0) < 0) & ~ended)
    games = ended.sum(0)
    assert (games >= 2).all()
    for i in range(2):
        last = np.flatnonzero(ended[:, i])[-1]
        assert lost[: last + 1, i].sum() == 4 * games[i], (
            "five lives: four are lost on the way, the fifth ends the game"
        )
    # at a lost life the stack goes on: its older frames are those of the step before
    step, i = np.argwhere(lost)[0]
    np.testing.assert_array_equal(frames[True][step + 1][i, :3], frames[True][step][i, 1:])


@pytest.mark.slow
def test_a_point_in_pong_is_marked_and_the_game_stays_whole() -> None:
    own = {"episodic_life": False, "episodic_reward": True, "max_episode_steps": 700}
    run = play(make("pong", 2, training=True, **own), 1000)
    plain = play(make("pong", 2, training=False, **own), 1000)
    np.testing.assert_array_equal([row[0] for row in run], [row[0] for row in plain])
    reward, terminated, truncated, part = (np.array([row[i] for row in run[1:]]) for i in (1, 2, 3, 7))
    np.testing.assert_array_equal(part, (reward != 0) & ~(terminated | truncated))
    assert (part.sum(0) >= 5).all()
    assert (truncated.sum(0) == 1).all()


# -- settings have an effect ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manager", [pytest.param("base", marks=pytest.mark.slow), "native"])
@pytest.mark.parametrize(
    "change", [{"sticky_action_prob": 0.5}, {"fire_reset": False}, {"noop_max": 1}, {"frame_skip": 2}]
)
def test_each_setting_changes_the_game(change: dict[str, Any], manager: str) -> None:
    plain, changed = (play(make("breakout", 2, manager=manager, **setting), 30) for setting in ({}, change))
    assert any((a[0] != b[0]).any() for a, b in zip(plain, changed, strict=True))


def test_only_the_first_action_of_a_life_is_fire() -> None:
    # within 20 steps no life is lost: a player that fires itself sees the same, and the first action does not matter
    frames = {}
    for name, serves, first in (("ours", True, 0), ("own", False, FIRE), ("left", True, 3)):
        env = make("breakout", 1, fire_reset=serves)
        env.reset()
        frames[name] = [env.step(np.array([first if step == 0 else 2]))[0].copy() for step in range(20)]
        env.close()
    np.testing.assert_array_equal(frames["ours"], frames["own"])
    np.testing.assert_array_equal(frames["ours"], frames["left"])


def test_the_number_of_no_ops_is_drawn_for_each_game() -> None:
    for noop_max, low, high in ((7, 1, 7), (0, 0, 0)):
        info = make("pong", 4, noop_max=noop_max).reset()[1]
        noops = info["episode_frame_number"]
        assert (noops.min() >= low, noops.max() <= high) == (True, True)
        assert len(set(noops.tolist())) > 2 or noop_max == 0


def test_a_run_does_not_depend_on_the_number_of_threads() -> None:
    runs = [play(make("breakout", 4, num_threads=threads), 60) for threads in (1, 2)]
    assert_same(*runs)
