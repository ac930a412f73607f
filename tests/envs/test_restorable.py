"""Environments come back to where they were by replaying their running episodes; nothing after it differs by a bit."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs import restorable
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.envs.vector_env import create_vector_env
from ding_lite.utils.registry import ENV_REGISTRY
from ding_lite.utils.seed import episode_seed
from ding_lite.utils.tree import tree_leaves
from dizoo.atari.envs import atari_env
from dizoo.box2d.lunarlander.envs import lunarlander_env  # noqa: F401  # registers it
from tests.dizoo.extras import EXTRAS, needs
from tests.envs.test_vector_env import env_config
from tests.toys import Toy


class WalkEnv(Toy):
    """A random walk from a random start, to +-4; hybrid actions, nested observations; of two lives 2 costs one."""

    observation_space: gymnasium.Space[Any] = Dict(
        {"place": Box(-9, 9, (1,), np.float64), "deep": Dict({"count": Discrete(2**30)})}
    )
    action_space: gymnasium.Space[Any] = Dict({"action_type": Discrete(4), "action_args": Box(-3, 1, (2,), np.float32)})
    FAIL = 3  # this action type fails the walk where `fails`

    def __init__(self, cfg_env: EasyDict) -> None:
        self.fails, self.drift = cfg_env.kwargs.get("fails", False), 0.0

    def begin(self) -> Any:
        assert self.options is None, "what SeededEnv is told is not for the environment"
        self.place, self.lives = self.np_random.normal(size=1), 2
        return {"lives": self.lives}

    def play(self, action: Any) -> Any:
        if self.fails and action["action_type"] == self.FAIL:
            raise RuntimeError("stumbled")
        if action["action_type"] == 2:
            self.lives = 1
        self.place = self.place + self.np_random.normal(size=1) + self.drift + action["action_args"].sum()
        ended = bool(abs(self.place[0]) > 4)
        self.place = np.clip(self.place, -9, 9)
        return float(self.place[0]), ended, False, {"lives": self.lives}

    def observe(self) -> dict[str, Any]:
        return {"place": self.place.copy(), "deep": {"count": self.count}}


class RestlessEnv(WalkEnv):
    """The walk, with one drift in each instance."""

    instances = 0

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(cfg_env)
        RestlessEnv.instances += 1
        # environments are built in order, so of two each first one has the same drift, each second one another
        self.drift = 0.0 if self.instances % 2 else self.instances / 1000


class EngineEnv(WalkEnv):
    """The walk by an engine that knows nothing of episodes' numbers and replays."""

    @classmethod
    def make_native(cls, cfg_env: EasyDict, num_envs: int, num_threads: int) -> VectorEnv:
        return SyncVectorEnv([lambda: cls(cfg_env)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


TOYS: dict[str, Any] = {"walk": WalkEnv, "restless": RestlessEnv, "engine": EngineEnv}
PONG = dict(type="atari", env_id="pong", max_episode_steps=25)
SHORT = ("pong", "sticky", "remembering")
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "cartpole": (dict(env_id="CartPole-v1"), ("base", "subprocess")),
    "frame stack": (dict(env_id="CartPole-v1", frame_stack=3), ("base", "subprocess")),
    "pendulum": (dict(env_id="Pendulum-v1", collector_max_episode_steps=[40, 15]), ("base", "subprocess")),
    "walk": (dict(type="walk", episodic_life=True), ("base", "subprocess")),
    "lunarlander": (dict(type="lunarlander"), ("base",)),
    "pong": (PONG, ("native", "base", "subprocess")),
    "breakout": (dict(type="atari", env_id="breakout", collector_max_episode_steps=[0, 30]), ("native",)),
    "sticky": (dict(PONG, env_id="breakout", sticky_action_prob=0.25), ("native", "base")),
    "remembering": (dict(PONG, env_id="ice_hockey"), ("native",)),
}
# Another case has the manager too, and the case another manager; or the game is another one.
VARIANTS = (
    *(("sticky", "base"), ("pong", "base"), ("pong", "subprocess"), ("frame stack", "subprocess")),
    *(("breakout", "native"), ("remembering", "native"), ("sticky", "native")),
    *(("cartpole", "subprocess"), ("pendulum", "subprocess")),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cls in TOYS.items():
        monkeypatch.setitem(ENV_REGISTRY, name, cls)


def make(seed: int = 0, num_envs: int = 2, manager: str = "base", **env: Any) -> RestorableVectorEnv:
    cfg = env_config(env.pop("type", "gymnasium"), manager={"type": manager, "num_threads": 2}, **env)
    restorable_env = create_vector_env(cfg, num_envs, seed, training=True)
    assert isinstance(restorable_env, RestorableVectorEnv)
    return restorable_env


def actions_of(env: RestorableVectorEnv, num_steps: int) -> list[Any]:
    env.action_space.seed(5)
    return [copy.deepcopy(env.action_space.sample()) for _ in range(num_steps)]


def play(env: RestorableVectorEnv, actions: list[Any]) -> list[list[np.ndarray]]:
    """Return all that each step gave, as copies."""
    rows = []
    for action in actions:
        *parts, info = env.step(action)
        extra = [info[key] for key in ("episode_return", "episode_length")]
        extra += [info[key] for key in ("part_ended", "final_obs") if key in info]
        rows.append([np.array(leaf) for part in [*parts, *extra] for leaf in tree_leaves(part)])
    return rows


def assert_same(left: list[list[np.ndarray]], right: list[list[np.ndarray]]) -> None:
    for one, other in zip(left, right, strict=True):
        assert [(a.dtype, a.shape, a.tobytes()) for a in one] == [(b.dtype, b.shape, b.tobytes()) for b in other]


def assert_same_state(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    assert [len(next(tree_leaves(actions))) for actions in left["actions"]] == left["length"].tolist()
    plain = ("draws", "attributes", "changes")
    assert [left[key] for key in plain] == [right[key] for key in plain]
    pairs = [(left[key], right[key]) for key in left if key not in ("actions", *plain)]
    actions = zip(left["actions"], right["actions"], left["length"], strict=True)
    pairs += [(one, other) for one, other, length in actions if length]
    for one, other in pairs:
        assert_same([list(tree_leaves(one))], [list(tree_leaves(other))])


def ends(rows: list[list[np.ndarray]], start: int) -> int:
    """Return how many episodes ended; the flags are in columns `start` and `start + 1`."""
    return int(sum((row[start] | row[start + 1]).sum() for row in rows))


# -- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "manager"),
    [
        pytest.param(name, manager, marks=[pytest.mark.slow] if (name, manager) in VARIANTS else [])
        for name in CASES
        for manager in CASES[name][1]
    ],
)
def test_a_restored_environment_plays_on_as_if_it_had_never_stopped(
    name: str, manager: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(EXTRAS.get(name))
    monkeypatch.setattr(atari_env, "GAMES_PER_SEED", 3)  # so that games of several seeds are played
    num_envs = 2 if name in SHORT else 3
    env = make(3, num_envs, manager, **CASES[name][0])
    actions = actions_of(env, 170 if name in SHORT else 700)
    before, after = actions[: -len(actions) // 2 - 14], actions[-len(actions) // 2 - 14 :]
    env.reset()
    flags = len(list(tree_leaves(env.single_observation_space.sample()))) + 1
    assert ends(play(env, before), flags) >= 3
    state = env.state_dict()
    kept = copy.deepcopy(state)
    expected = play(env, after)
    assert ends(expected, flags) >= 3
    assert_same_state(state, kept)  # playing on does not change it
    env.close()

    fresh = make(99, num_envs, manager, **CASES[name][0])
    obs, _, restored = fresh.load_state_dict(state)
    assert restored.all()
    assert_same([list(tree_leaves(obs))], [list(tree_leaves(state["obs"]))])
    assert_same_state(fresh.state_dict(), kept)
    assert_same(play(fresh, after), expected)
    if name == "walk":
        assert len(np.unique(kept["length"])) > 1, "episodes of different lengths are the interesting ones"
    fresh.load_state_dict(kept)  # one that has played can be brought back too
    assert_same(play(fresh, after), expected)
    fresh.close()


def test_an_episode_does_not_depend_on_those_before_it() -> None:
    # 70 games of Pong, two of them with a seed of their own after the first; then single ones out of the middle
    env = make(3, 1, "native", **dict(PONG, max_episode_steps=2))
    starts = [env.reset(seed=[8])]
    steps = [env.step(np.zeros(1, np.int64)) for _ in range(140)]
    starts += [(obs, info) for obs, *_, info in steps[1::2]]
    for episode in (64, 33, 1, 0):
        obs, info = env.unwrapped.reset(seed=[8], options={"episode": np.array([episode])})  # type: ignore[arg-type]
        np.testing.assert_array_equal(obs, starts[episode][0])
        assert info["episode_frame_number"] == starts[episode][1]["episode_frame_number"]  # the no-ops at the start


# -- what cannot come back --------------------------------------------------------------------------------------------


def test_a_random_environment_starts_its_next_episode_and_the_others_come_back() -> None:
    env = make(3, 2, type="restless")
    actions = actions_of(env, 80)
    env.reset()
    play(env, actions)
    while not (state := env.state_dict())["length"].all():
        play(env, actions[:1])
    fresh = make(4, 2, type="restless")
    obs, _, restored = fresh.load_state_dict(state)
    assert restored.tolist() == [True, False]
    assert obs["deep"]["count"].tolist() == [state["length"][0], 0]
    seed = episode_seed(int(state["seed"][1]), int(state["episode"][1]) + 1)
    assert obs["place"][1] == WalkEnv(EasyDict(kwargs={})).reset(seed=seed)[0]["place"]
    info = fresh.step(actions[0])[4]
    assert info["episode_length"].tolist() == [state["length"][0] + 1, 1]


def test_an_episode_that_is_longer_than_the_journal_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorable, "JOURNAL_LIMIT", 300)
    env = make(3, 1, env_id="Pendulum-v1", max_episode_steps=1000)
    actions = actions_of(env, 301)
    env.reset()
    play(env, actions[:300])
    assert make(4, 1, env_id="Pendulum-v1", max_episode_steps=1000).load_state_dict(env.state_dict())[2].all()
    play(env, actions[300:])
    fresh = make(4, 1, env_id="Pendulum-v1", max_episode_steps=1000)
    assert not fresh.load_state_dict(env.state_dict())[2].any()
    env.reset()  # its next episode is what the fresh one plays now
    assert_same(play(fresh, actions), play(env, actions))


def test_an_engine_that_cannot_replay_starts_over() -> None:
    env = make(3, 2, "native", type="engine")
    actions = actions_of(env, 40)
    first = env.reset()[0]["place"].copy()
    play(env, actions)
    fresh = make(4, 2, "native", type="engine")
    obs, _, restored = fresh.load_state_dict(env.state_dict())
    assert restored.tolist() == [False, False]
    assert obs["deep"]["count"].tolist() == [0, 0]
    assert (obs["place"] != first).all()
    assert fresh.step(actions[0])[4]["episode_length"].tolist() == [1, 1]


def test_a_state_of_another_number_of_environments_is_refused() -> None:
    env = make(3, 2, env_id="CartPole-v1")
    env.reset()
    with pytest.raises(ValueError, match=r"holds 2 collecting environments .* env\.collector_env_num=3: set it to"):
        make(3, 3, env_id="CartPole-v1").load_state_dict(env.state_dict())


# -- workers that fail ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Environment .* it is restarted:RuntimeWarning")
def test_after_a_failure_the_next_episode_begins_and_the_state_stays_exact() -> None:
    settings: dict[str, Any] = dict(type="walk", kwargs={"fails": True}, episodic_life=True, manager="subprocess")
    env = make(3, 2, **settings)
    still = {"action_type": np.zeros(2, np.int64), "action_args": np.full((2, 2), 0.5, np.float32)}
    env.reset()
    play(env, [still])
    before = env.state_dict()
    fail = dict(still, action_type=np.array([0, WalkEnv.FAIL]))
    obs, reward, terminated, truncated, info = env.step(fail)
    assert truncated[1] > terminated[1]
    assert reward[1] == 0
    assert not info["part_ended"][1]
    ended = np.flatnonzero(terminated | truncated)
    last = info["final_obs"]["deep"]["count"][ended == 1]
    assert last == before["length"][1], "what was seen last before the failure"
    seed = episode_seed(int(before["seed"][1]), int(before["episode"][1]) + 1)
    start = WalkEnv(EasyDict(kwargs={})).reset(seed=seed)[0]
    assert obs["place"][1] == start["place"]
    assert obs["deep"]["count"][1] == 0
    assert env.state_dict()["length"].tolist()[1] == 0

    actions = [action for action in actions_of(env, 200) if (action["action_type"] != WalkEnv.FAIL).all()]
    info = env.step(dict(still, action_type=np.array([0, 2])))[4]
    assert info["part_ended"][1], "lives are counted from those of the new episode"
    fresh = make(4, 2, **settings)
    assert fresh.load_state_dict(env.state_dict())[2].all()
    assert_same(play(fresh, actions), play(env, actions))
    env.close()
    fresh.close()


# -- parts ------------------------------------------------------------------------------------------------------------
