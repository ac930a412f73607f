"""A game of PettingZoo's parallel API is an environment of several agents."""

from __future__ import annotations

import importlib
from typing import Any
from unittest import mock

import numpy as np
import pytest
from easydict import EasyDict

import ding_lite
from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.envs import EnvError, check_env, create_vector_env
from ding_lite.envs.actions import random_actions
from ding_lite.utils.registry import ConfigError
from dizoo.petting_zoo.envs.petting_zoo_simple_spread_env import SimpleSpreadEnv
from dizoo.pettingzoo.envs.pettingzoo_env import PettingZooEnv
from tests.dizoo.extras import needs
from tests.envs.test_vector_env import env_config

GAME = "tests.dizoo/small_game"


def make(env_id: str = GAME, team_reward: str = "sum", **kwargs: Any) -> PettingZooEnv:
    return PettingZooEnv(EasyDict(env_id=env_id, team_reward=team_reward, kwargs=kwargs))


@pytest.mark.parametrize("limit", [True, False])
def test_different_spaces_are_padded_and_agents_that_are_out_are_masked(limit: bool) -> None:
    env = make(limit=limit)
    obs, _ = env.reset(seed=0)
    states: list[list[float]] = [[0.5, -0.5, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]  # the clerk sees 2 of 0, 1 and 2
    masks = [[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 0]]
    assert obs["agent_state"].tolist() == states
    assert obs["action_mask"].tolist() == masks
    assert obs["global_state"].tolist() == np.ravel(states).tolist()
    found = []
    for _ in range(3):
        obs, *rest = env.step(np.array([1, 3, 2]))
        assert env.observation_space.contains(obs)
        assert obs["action_mask"][0].tolist() == [1, 0, 0, 0]
        assert not obs["agent_state"][0].any()
        found.append(rest[:3])
    # names of 5 letters, and the step; the scout is paid once
    assert found == [[18.0, False, False], [14.0, False, False], [16.0, not limit, limit]]
    assert env._game.played == [{"scout": 1, "guard": 8, "clerk": 2}] + [{"guard": 8, "clerk": 2}] * 2
    assert obs["action_mask"].tolist()[1:] == masks[1:]  # the last observation of those who played to the end
    assert obs["agent_state"][1:].any(1).all()


def test_the_teams_reward_may_be_the_mean() -> None:
    env = make(team_reward="mean")
    env.reset(seed=0)
    assert env.step(np.array([0, 1, 0]))[1] == 6.0


@pytest.mark.parametrize(
    ("env_id", "kwargs", "message"),
    [
        ("mpe9/simple_v3", {}, "env.env_id 'mpe9/simple_v3' needs the extra 'pettingzoo'"),
        ("simple_spread_v3", {}, "'simple_spread_v3': expected package and module of a game, such as"),
        ("tests.dizoo/extras", {}, "expected a game with PettingZoo's parallel API"),
        (GAME, dict(continuous=True), "expected Discrete actions of every agent, got"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused_in_one_line(env_id: str, kwargs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(env_id, **kwargs)


def test_masks_of_infos_are_obeyed_and_noted() -> None:
    told = {"clerk": [0, 0.5, 256], "scout": np.array([False, True])}
    cfg = env_config("pettingzoo", env_id=GAME, kwargs=dict(told=told), team_reward="sum")
    assert check_env(cfg).notes == ("info['action_mask'] of the agents is obeyed.",)
    vector = create_vector_env(cfg, 2, 0, True)
    obs, _ = vector.reset(seed=0)
    assert obs["action_mask"].tolist() == [[[0, 1, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0]]] * 2
    for _ in range(9):
        action = random_actions(vector.action_space, obs)
        assert obs["action_mask"][np.arange(2)[:, None], np.arange(3), action].all()
        obs = vector.step(action)[0]
    vector.close()


BOARD = np.zeros((2, 2), np.float32)


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ({"clerk": 3}, "of 'clerk' with the value 3 .*not in its space Discrete"),  # flattened, label -1 is label 2
        ({"clerk": -1}, "of 'clerk' with the value -1 .*not in its space Discrete"),
        ({"scout": np.zeros(1, np.float32)}, r"of 'scout' = .* of shape \(1,\), expected \(2,\)"),  # would be padded
        ({"scout": None}, "of 'scout' = None of type NoneType"),
        ({"guard": BOARD[:1]}, r"of 'guard' = .* of shape \(1, 2\), expected \(2, 2\)"),
        (
            {"guard": {"observation": BOARD, "action_mask": [1, 1]}},
            r"'guard' has an action_mask of shape \[2\], .*\[4\]",
        ),
        ({"guard": {"observation": BOARD, "action_mask": [1, np.nan, 0, 0]}}, "'guard' has the action_mask .*nan"),
    ],
)
def test_what_an_agent_observes_is_compared_with_its_space(seen: Any, message: str) -> None:
    with pytest.raises(EnvError, match=f"^Environment '{GAME}': .*{message}"):
        make(seen=seen).reset(seed=0)


@pytest.mark.parametrize("name", ["qmix", "mappo"])
def test_it_is_learned_on_and_a_trained_policy_plays_it(name: str) -> None:
    sizes: dict[str, Any] = dict(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2)
    collect = dict(n_sample=32) if name == "mappo" else {}
    main = dict(exp_name="run", env=dict(env_id=GAME, **sizes), policy=dict(collect=collect, learn=dict(batch_size=8)))
    create = dict(
        env=dict(type="pettingzoo", import_names=["dizoo.pettingzoo.envs.pettingzoo_env"]), policy=dict(type=name)
    )
    pipeline = serial_pipeline if name == "qmix" else serial_pipeline_onpolicy
    pipeline((main, create), seed=0, max_train_iter=20)
    agent = ding_lite.load("run")
    obs, _ = agent.make_env().reset(seed=0)
    action = agent.act(obs)
    assert action.shape == (3,)
    assert obs["action_mask"][np.arange(3), action].all()
    assert agent.evaluate(2)["returns"] == [48.0, 48.0]


@pytest.mark.parametrize(("env_id", "shape"), [("simple_spread_v3", (3, 18)), ("simple_speaker_listener_v4", (2, 11))])
def test_the_particle_games_have_their_shapes_and_repeat_by_seed(env_id: str, shape: tuple[int, int]) -> None:
    needs("mpe2")
    envs = [make(f"mpe2/{env_id}") for _ in range(2)]
    played: list[Any] = []
    for env in envs:
        obs, _ = env.reset(seed=3)
        assert env.observation_space.contains(obs)
        assert obs["agent_state"].shape == shape
        played.append([obs["global_state"], *env.step(np.ones(shape[0], int))[:2]])
    np.testing.assert_equal(*played)


def test_simple_spread_has_the_reward_and_the_states_of_di_engine() -> None:
    needs("mpe2")
    keys: dict[str, Any] = dict(n_agent=3, n_landmark=3, max_cycles=5, team_reward="sum", kwargs={})
    whole, own = (SimpleSpreadEnv(EasyDict(keys, agent_specific_global_state=each)) for each in (False, True))
    plain = make("mpe2/simple_spread_v3", N=3, max_cycles=5)
    for env in (plain, whole, own):
        env.reset(seed=3)
    for step in range(1, 6):
        action = np.array([step % 5, 1, 4])
        seen, reward, *ends = plain.step(action)
        obs, twice, *same_ends = whole.step(action)
        assert twice == pytest.approx(2 * reward)
        assert same_ends[:2] == ends[:2]
        assert ends[:2] == [False, step == 5]
        agents = seen["agent_state"]  # velocity (2), position (2), landmarks (6), other agents (4), messages (4)
        np.testing.assert_array_equal(obs["agent_state"], agents)
        state = obs["global_state"]
        assert state.tolist() == [*agents[0, 2:14], *agents[:, :2].ravel(), *agents[:, 14:].ravel()]
        each = own.step(action)[0]["global_state"]
        np.testing.assert_array_equal(each, [[*agent, *state] for agent in agents])
        assert whole.observation_space.contains(obs)
    with pytest.raises(ConfigError, match=r"env\.n_landmark: expected env\.n_agent=3"):
        SimpleSpreadEnv(EasyDict(keys, n_landmark=2, agent_specific_global_state=False))


def test_a_game_of_turns_is_the_same_without_what_its_conversion_drops() -> None:
    needs("mpe2")
    module = importlib.import_module("mpe2.simple_spread_v3")
    env, game = make("mpe2/simple_spread_v3", max_cycles=4), module.parallel_env(max_cycles=4)
    assert env._game.aec_env is env._game.unwrapped
    observe = mock.Mock(side_effect=env._game.unwrapped.observe)
    env._game.unwrapped.observe = observe
    for seed in range(2):
        obs, seen = env.reset(seed=seed)[0], game.reset(seed=seed)[0]
        for t in range(4):
            observe.reset_mock()
            np.testing.assert_array_equal(obs["agent_state"], [seen[agent] for agent in game.possible_agents])
            actions = [(t + m) % 5 for m in range(3)]
            obs, reward, terminated, truncated, _ = env.step(np.array(actions))
            seen, rewards, *_ = game.step(dict(zip(game.possible_agents, actions, strict=True)))
            assert reward == pytest.approx(sum(rewards.values()))
            assert (terminated, truncated) == (False, t == 3)
            assert observe.call_args_list == [mock.call(agent) for agent in game.possible_agents]
