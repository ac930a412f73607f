"""SMAC's maps over SMAClite: sizes and values of what agents see, the return of a battle, and its limits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict

from ding_lite.config import compile_config
from ding_lite.envs import create_vector_env
from ding_lite.utils.registry import ConfigError
from dizoo.smac.envs.smac_env import INSTALL, SMACEnv

pytest.importorskip("smaclite")  # before the tests, because scikit-learn changes the process's environment
MODULE = "dizoo.smac.envs.smac_env"
# Sizes in DI-engine's config files: what an agent observes, the global state, that of each agent, and the actions.
SIZES = {
    "3s5z": (150, 216, 295, 14),
    "MMM": (186, 290, 389, 16),
    "MMM2": (204, 322, 431, 18),
    "5m_vs_6m": (72, 98, 152, 12),
    "2c_vs_64zg": (404, 342, 671, 70),
}
EAST = 4  # the action


def make_cfg(name: str, **env: Any) -> EasyDict:
    create = dict(env=dict(type="smac", import_names=[MODULE]), policy=dict(type="qmix"))
    return compile_config((dict(env=dict(map_name=name, **env)), create)).env


def make(name: str, **env: Any) -> SMACEnv:
    return SMACEnv(make_cfg(name, **env))


def at_random(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.choice(np.flatnonzero(row)) for row in mask])


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_agents_see_as_much_as_in_di_engine(name: str, sizes: tuple[int, int, int, int]) -> None:
    observed, whole, own, options = sizes
    spaces: Any = make(name).observation_space
    num = spaces["agent_state"].shape[0]
    assert spaces["agent_state"].shape == (num, observed)
    assert spaces["global_state"].shape == (whole,)
    assert spaces["action_mask"].shape == (num, options)
    special: Any = make(name, special_global_state=True).observation_space
    assert special["global_state"].shape == (num, own)


def test_the_state_of_each_agent_agrees_with_what_smaclite_shows_it() -> None:
    """On 2s3z, kinds have 2 numbers, and all units a shield."""
    env, rng = make("2s3z", special_global_state=True), np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    compared = 0
    for _ in range(25):
        obs, _, terminated, *_ = env.step(at_random(obs["action_mask"], rng))
        if terminated:
            break
        for m in np.flatnonzero(obs["action_mask"][:, 0] == 0):  # those that live
            seen, state = obs["agent_state"][m], obs["global_state"][m]
            # moves (4), 5 enemies of 8, 4 others of 8, itself: health, shield, kind, last action (11), number (5)
            enemies, others = seen[4:44].reshape(5, 8), seen[44:76].reshape(4, 8)
            # 4 others of 5 + 2 + 2 + 2 + 11, 5 enemies of 5 + 2 + 2 + 2, itself (4 + 2 + 2 + 2 + 11), number (5)
            allies, foes = state[:88].reshape(4, 22), state[88:143].reshape(5, 11)
            for row, whole in zip(enemies, foes, strict=True):
                if row.any():
                    np.testing.assert_allclose(whole[[0, 1, 2, 3, 5, 6, 7, 8]], row, atol=1e-5)
                    compared += 1
                assert whole[4] == row.any()  # within sight
            for row, whole in zip(others, allies, strict=True):
                if row.any():
                    np.testing.assert_allclose(whole[[0, 1, 2, 3, 5, 6, 9, 10]], row, atol=1e-5)
                    compared += 1
            np.testing.assert_array_equal(state[143:147], [1, 0, 0, 0])
            np.testing.assert_allclose(state[147:149], seen[76:78])  # health and shield
            np.testing.assert_array_equal(state[[*range(151, 153)]], seen[78:80])  # kind
            np.testing.assert_array_equal(state[153:], seen[80:])  # last action and number
    assert compared > 100


def test_a_dead_agent_is_masked_and_with_a_death_mask_its_state_is_its_number() -> None:
    env, rng = make("3m", special_global_state=True, death_mask=True), np.random.default_rng(0)
    obs, _ = env.reset(seed=0)
    terminated = False
    while not terminated:
        obs, _, terminated, *_ = env.step(at_random(obs["action_mask"], rng))
    dead = np.flatnonzero(obs["action_mask"][:, 0])
    assert dead.tolist() == [0, 1, 2]  # random play loses
    assert obs["action_mask"].tolist() == [[1] + [0] * 8] * 3
    np.testing.assert_array_equal(obs["global_state"][:, -3:], np.eye(3))
    assert not obs["global_state"][:, :-3].any()


def attack(mask: np.ndarray) -> np.ndarray:
    """Return the attack on the first enemy in reach, or else a move towards them."""
    return np.array(
        [np.argmax(row * (np.arange(len(row)) >= 6)) or (EAST if row[EAST] else row.argmax()) for row in mask]
    )


def test_the_return_is_the_victory_and_an_episode_does_not_depend_on_those_before() -> None:
    env = create_vector_env(make_cfg("3m"), num_envs=1, seed=0, training=False)
    battles: list[tuple[float, float, int]] = []
    for _ in range(2):
        obs, _ = env.reset(seed=[5])
        learned, ended = 0.0, 0
        while ended < 2:  # the second battle starts where the first one leaves the units' last actions
            obs, reward, terminated, truncated, info = env.step(attack(obs["action_mask"][0])[None])
            learned += float(reward[0])
            if terminated[0] or truncated[0]:
                battles.append((float(info["episode_return"][0]), learned, int(info["episode_length"][0])))
                learned, ended = 0.0, ended + 1
    env.close()
    assert battles[:2] == battles[2:]
    for victory, learned, length in battles:
        assert length < 60
        assert victory in (0.0, 1.0)
        assert (learned == pytest.approx(20.0)) == (victory == 1.0)  # all that can be had
    assert 1.0 in {victory for victory, *_ in battles}


def test_a_battle_is_truncated_at_smacs_limit() -> None:
    env = make("3m")
    obs, _ = env.reset(seed=0)
    west = np.array([5, 5, 5])
    for step in range(1, 61):
        action = np.where(obs["action_mask"][np.arange(3), west], west, obs["action_mask"].argmax(1))
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated:
            break
        assert truncated == (step == 60)


def test_what_cannot_be_played_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^env\.map_name: expected one of 2s3z, .*, got '3s5'\.") as error:
        make("3s5")
    monkeypatch.setitem(sys.modules, "smaclite.env", None)
    with pytest.raises(ConfigError, match=r"^env\.type='smac' needs SMAClite \(") as error:
        make("3m")
    assert str(error.value).endswith(f"{INSTALL}.")
