"""envpool's environments obey the contract of `vector_env`, and play as gymnasium's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from ding_lite.envs import EpisodeMonitor, check_env, create_vector_env
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.utils import ConfigError
from ding_lite.utils.tree import tree_leaves
from dizoo.atari.envs.atari_env import AtariEnv  # registers itself
from tests.envs.test_vector_env import env_config
from tests.run.helpers import result, run

pytest.importorskip("envpool")


def make(
    num_envs: int = 3, seed: int = 7, *, env_type: str = "gymnasium", num_threads: int = 2, **overrides: Any
) -> EpisodeMonitor | RestorableVectorEnv:
    cfg = env_config(env_type, manager={"type": "env_pool", "num_threads": num_threads}, **overrides)
    return create_vector_env(cfg, num_envs, seed, training=True)


def play(env: Any, num_steps: int, seed: int = 5) -> list[dict[str, Any]]:
    """Reset and take random steps; return what was seen, did and got in each."""
    env.action_space.seed(seed)
    obs, _ = env.reset()
    rows = []
    for _ in range(num_steps):
        action = env.action_space.sample()
        after, reward, terminated, truncated, info = env.step(action)
        done = {"terminated": terminated, "truncated": truncated}
        rows.append({**info, **done, "obs": obs, "action": action, "after": after, "reward": reward})
        obs = after
    return rows


def assert_same(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)


def successors(row: dict[str, Any]) -> np.ndarray:
    """The true next observations `[N, ...]`: where an episode ended, its last one."""
    after = row["after"].copy()
    if "final_obs" in row:
        after[row["terminated"] | row["truncated"]] = row["final_obs"]
    return after


# -- transitions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0"])  # show their state
def test_every_step_is_a_transition_of_gymnasiums_environment(env_id: str) -> None:
    """A step of a reset would not be one: neither its action nor the true last observation would fit."""
    single: Any = gymnasium.make(env_id).unwrapped
    single.reset(seed=0)
    num_steps, ends = 250, 0
    for row in play(make(env_id=env_id, act_scale=False), num_steps):
        after = successors(row)
        for n in range(3):
            single.state = row["obs"][n].astype(np.float64)
            obs, reward, terminated, _, _ = single.step(row["action"][n])
            np.testing.assert_allclose(after[n], obs, atol=1e-4)
            np.testing.assert_allclose(row["reward"][n], reward, atol=1e-3)
            assert row["terminated"][n] == terminated
            single.reset()
        ends += int((row["terminated"] | row["truncated"]).sum())
    assert ends >= (0 if env_id == "MountainCarContinuous-v0" else 3)


# -- time limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "length"), [(None, 200), (30, 30), (230, 230)])
def test_the_time_limit_truncates_and_does_not_terminate(limit: int | None, length: int) -> None:
    rows = play(make(2, env_id="Pendulum-v1", max_episode_steps=limit), 2 * length)
    ends = [t + 1 for t, row in enumerate(rows) if row["truncated"].any()]
    assert ends == [length, 2 * length]
    assert all(row["truncated"].all() for row in rows if row["truncated"].any())
    assert not any(row["terminated"].any() for row in rows)


def test_an_episode_that_terminates_in_its_last_step_does_both_as_in_gymnasium() -> None:
    """A truncation alone would give a fallen pole the value of a standing one."""
    action = np.zeros(2, np.int64)
    base = create_vector_env(env_config(env_id="CartPole-v1"), 2, 7, True)
    pool = make(2, env_id="CartPole-v1")
    for kind, env in (("base", base), ("env_pool", pool)):
        env.reset()
        length = 1
        while not (terminated := env.step(action)[2]).any():
            length += 1
        first = int(terminated.argmax())
        cfg = env_config(env_id="CartPole-v1", manager={"type": kind}, max_episode_steps=length)
        limited = create_vector_env(cfg, 2, 7, True)
        limited.reset()
        for _ in range(length):
            _, _, terminated, truncated, _ = limited.step(action)
        assert (terminated[first], truncated.tolist()) == (True, [True, True])


# -- seeds and resets -----------------------------------------------------------------------------------------------


def test_seeds_are_distinct_and_reproducible_whatever_the_threads() -> None:
    rows = play(make(6, env_id="CartPole-v1", num_threads=1), 60)
    assert len(np.unique(rows[0]["obs"][:, 0])) == 6
    assert_same(rows, play(make(6, env_id="CartPole-v1", num_threads=3), 60))
    assert (rows[0]["obs"] != play(make(6, seed=8, env_id="CartPole-v1"), 1)[0]["obs"]).all()


def test_a_reset_with_seeds_starts_their_episodes_and_one_without_the_next_ones() -> None:
    env: Any = make(2, env_id="CartPole-v1")
    first, _ = env.reset(seed=[3, 4])
    later, _ = env.reset()
    assert (first != later).all()
    assert (env.reset(seed=[4, 3])[0] == first[::-1]).all(), "an episode depends on its seed, not on its place"
    assert (env.reset()[0] == later[::-1]).all()


def test_some_environments_can_be_reset() -> None:
    cfg = env_config(env_id="CartPole-v1", frame_stack=2, manager={"type": "env_pool"})
    env = create_vector_env(cfg, 4, 7, training=False)
    env.reset()
    before = env.step(np.ones(4, np.int64))[0]
    kept = before.copy()
    mask = np.array([False, True, False, True])
    obs, info = env.reset(options={"reset_mask": mask})
    assert (before == kept).all(), "what was handed out must not change"
    assert (obs[~mask] == before[~mask]).all()
    assert (obs[mask, 0] == 0).all()
    assert (np.abs(obs[mask, 1]) <= 0.05).all()
    assert info["elapsed_step"].tolist() == [1, 0, 1, 0]
    assert env.step(np.ones(4, np.int64))[4]["episode_length"].tolist() == [2, 1, 2, 1]
    with pytest.raises(ValueError, match="seeds of some environments"):
        env.reset(seed=[1] * 4, options={"reset_mask": mask})
    with pytest.raises(ValueError, match="no options"):
        env.reset(options={"low": 0})


# -- observations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "space"),
    [
        ("FrozenLake-v1", gymnasium.spaces.Box(0, 1, (16,), np.float32)),
        ("CarRacing-v3", gymnasium.spaces.Box(0, 255, (3, 96, 96), np.uint8)),
        ("Blackjack-v1", gymnasium.spaces.Box(0, 31, (3,), np.float32)),
        ("LunarLander-v3", gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)),
        ("HalfCheetah-v5", gymnasium.spaces.Box(-np.inf, np.inf, (17,), np.float32)),
    ],
)
def test_the_policy_sees_what_it_sees_of_other_environments(env_id: str, space: gymnasium.Space[Any]) -> None:
    env = make(2, env_id=env_id)
    spec = check_env(env_config(env_id=env_id, manager={"type": "env_pool"}))
    assert spec.observation_space == env.single_observation_space == space
    assert spec.action_space == env.single_action_space
    for row in play(env, 10):
        assert row["obs"] in env.observation_space


def test_atari_has_the_settings_of_the_config() -> None:
    env = make(2, env_type="atari", env_id="BreakoutNoFrameskip-v4", noop_max=5)
    spec = check_env(env_config("atari", env_id="Breakout-v5", manager={"type": "env_pool"}))
    own = AtariEnv.check(env_config("atari", env_id="breakout"))
    assert (spec.observation_space, spec.action_space) == (own.observation_space, own.action_space)
    rows = play(env, 150)
    assert not rows[0]["obs"][:, :3].any(), "zeros before the first frame"
    for row in rows:
        assert (successors(row)[:, :-1] == row["obs"][:, 1:]).all()
    lost = sum(row["part_ended"].sum() for row in rows)
    assert lost > 0
    assert {0, 1} >= {int(reward) for row in rows for reward in row["reward"]}


# -- configs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_type", "overrides", "message"),
    [
        ("gymnasium", {"env_id": "CartPol-v1"}, r"envpool knows no 'CartPol-v1'\. Did you mean 'CartPole-v\d'"),
        ("gymnasium", {"env_id": None}, r"env\.env_id is not set"),
        ("gymnasium", {"env_id": "CartPole-v1", "kwargs": {"gravty": 1}}, r"'CartPole-v1' .*\{'gravty': 1\}.*gravty"),
        ("gymnasium", {"env_id": "CartPole-v1", "kwargs": {"reward_threshold": "x"}}, r"'reward_threshold': 'x'"),
        ("gymnasium", {"env_id": "CartPole-v1", "kwargs": {"batch_size": 2}}, r"env\.kwargs: \['batch_size'\]"),
        ("gymnasium", {"env_id": "CartPole-v1", "episodic_life": True}, r"env\.episodic_life.*lives"),
        ("pendulum", {}, r"'pendulum' environments have no equivalent in envpool.*env\.type 'gymnasium'"),
        ("minigrid", {}, r"'minigrid' environments have no equivalent in envpool"),
        ("atari", {"env_id": "PongPong-v5"}, r"no Atari ROM"),
    ],
)
def test_mistakes_are_config_errors_of_one_line(env_type: str, overrides: dict[str, Any], message: str) -> None:
    import_names = {"pendulum": "classic_control.pendulum", "minigrid": "minigrid"}
    if env_type in import_names:
        pytest.importorskip(f"dizoo.{import_names[env_type]}.envs.{env_type}_env")
    with pytest.raises(ConfigError, match=message):
        check_env(env_config(env_type, manager={"type": "env_pool"}, **overrides))


def test_a_run_plays_and_learns_with_envpool(tmp_path: Path) -> None:
    run("env.manager.type=env_pool", "env.norm_obs=True", "env.stop_value=1000", max_env_step=1500)
    told = result(tmp_path / "run")
    assert (told["stop_reason"], told["envstep"]) == ("max_env_step", 1504)  # a collect is 8 steps
    assert told["episode_count"] > 20
    assert told["train_iter"] > 500
