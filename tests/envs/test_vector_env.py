"""The contract of `ding_lite.envs.vector_env`, on small real environments with countable observations."""

from __future__ import annotations

import copy
import multiprocessing
from typing import Any

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs.keys import ENV_DEFAULTS
from ding_lite.envs.vector_env import check_env, create_vector_env
from ding_lite.utils.key import declared_keys, default_values
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from ding_lite.utils.seed import derive_seeds
from tests.toys import Toy

MANAGERS = ("base", "subprocess")


def env_config(env_type: str = "gymnasium", **overrides: Any) -> EasyDict:
    """`cfg.env` as compiling gives it: the defaults, those of the environment, and `overrides`."""
    cfg = copy.deepcopy(ENV_DEFAULTS) | {"type": env_type}
    own = {} if env_type == "gymnasium" else default_values(declared_keys(ENV_REGISTRY.find(env_type)))
    for layer in (own, overrides):
        manager = cfg["manager"] | layer.get("manager", {})
        cfg |= layer | {"manager": manager}
    return EasyDict(cfg)


def make(
    env_type: str, num_envs: int = 2, *, manager: str = "base", training: bool = True, **overrides: Any
) -> VectorEnv:
    return create_vector_env(env_config(env_type, manager={"type": manager}, **overrides), num_envs, 7, training)


class CountEnv(Toy):
    """Observation [episode, step]; reward 5 * (step + 1); action `a` ends the episode: 1 terminates, 2 truncates.

    It has 3 lives, in every other episode 2, and loses one at action 3.
    """

    observation_space: gymnasium.Space[Any] = Box(-1, 1000, (2,), np.float32)
    action_space = Discrete(4)
    episode = -1

    def begin(self) -> Any:
        self.episode, self.lives = self.episode + 1, 3 - (self.episode + 1) % 2
        return {"lives": self.lives, "start": float(self.np_random.random())}

    def play(self, action: int) -> Any:
        self.lives -= action == 3
        return 5.0 * self.count, action == 1, action == 2, {"lives": self.lives}

    def observe(self) -> Any:
        return np.array([self.episode, self.count], np.float32)


class CountDictEnv(CountEnv):
    """CountEnv with a nested observation."""

    observation_space = Dict({"episode": Discrete(1000), "deep": Dict({"count": Box(0, 1000, (3,), np.int16)})})

    def observe(self) -> Any:
        return {"episode": self.episode, "deep": {"count": np.full(3, self.count, np.int16)}}


class EngineEnv(CountEnv):
    """CountEnv with an engine of its own that records what it was asked for."""

    threads: int

    @classmethod
    def make_native(cls, cfg_env: EasyDict, num_envs: int, num_threads: int) -> VectorEnv:
        cls.threads = num_threads
        return SyncVectorEnv([lambda: cls(cfg_env)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cls in (("count", CountEnv), ("count_dict", CountDictEnv), ("engine", EngineEnv)):
        monkeypatch.setitem(ENV_REGISTRY, name, cls)


@pytest.fixture(params=MANAGERS)
def manager(request: pytest.FixtureRequest) -> str:
    return request.param


# -- transitions ----------------------------------------------------------------------------------------------------

# Options of two environments, the actions of steps, and some of what these return; None: it is not there. SAME_STEP:
# after an end the next episode's start comes back, and no step is spent on a reset. Returns are true, rewards clipped.
WALKS: dict[str, tuple[dict[str, Any], list[tuple[list[int], dict[str, Any]]]]] = {
    "ends": ({}, [
        ([0, 0], dict(obs=[[0, 1], [0, 1]], final_obs=None, part_ended=None)),
        ([1, 0], dict(obs=[[1, 0], [0, 2]], terminated=[1, 0], truncated=[0, 0], final_obs=[[0, 2]])),
        ([0, 2], dict(obs=[[1, 1], [1, 0]], terminated=[0, 0], truncated=[0, 1], final_obs=[[0, 3]])),
    ]),
    "frame stack": (dict(frame_stack=3), [
        ([0, 0], dict(obs=[[0, 0, 0, 0, 0, 1]] * 2)),
        ([1, 0], dict(obs=[[0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 2]], final_obs=[[0, 0, 0, 1, 0, 2]])),
    ]),
    "totals": (dict(clip_rewards=True), [
        ([0, 1], dict(reward=[1, 1], episode_return=[5, 5], episode_length=[1, 1])),
        ([2, 0], dict(reward=[1, 1], episode_return=[15, 5], episode_length=[2, 1])),
        ([0, 0], dict(reward=[1, 1], episode_return=[5, 15], episode_length=[1, 2])),
    ]),
    "a lost life": (dict(episodic_life=True), [
        ([3, 0], dict(part_ended=[1, 0], terminated=[0, 0], truncated=[0, 0])),
        ([0, 0], dict(part_ended=[0, 0], obs=[[0, 2], [0, 2]], episode_return=[15, 15])),
    ]),
    # The first ends with 3 lives, the next starts with 2, ends with 1; the next starts with 3.
    "games with lives": (dict(episodic_life=True), [
        ([1, 0], dict(terminated=[1, 0], part_ended=[0, 0])), ([0, 0], dict(part_ended=[0, 0])),
        ([3, 0], dict(part_ended=[1, 0])), ([2, 0], dict(truncated=[1, 0], part_ended=[0, 0])),
        ([0, 0], dict(part_ended=[0, 0])), ([3, 0], dict(part_ended=[1, 0])),
    ]),
    "rewards": (dict(episodic_reward=True, clip_rewards=True), [
        ([0, 1], dict(reward=[1, 1], terminated=[0, 1], part_ended=[1, 0])), ([2, 0], dict(part_ended=[0, 1])),
    ]),
    "evaluation": (dict(episodic_life=True, episodic_reward=True, training=False), [([3, 0], dict(part_ended=None))]),
}  # fmt: skip


@pytest.mark.parametrize("name", WALKS)
def test_each_step_returns_what_it_should(name: str, manager: str) -> None:
    options, steps = WALKS[name]
    env = make("count", manager=manager, **options)
    assert not env.reset()[0].any()
    assert getattr(env, "frame_stack") == options.get("frame_stack", 0)  # noqa: B009 (for the type checker)
    for action, expected in steps:
        obs, reward, terminated, truncated, info = env.step(np.array(action))
        seen = {**info, "obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        assert {key: seen[key].tolist() if key in seen else None for key in expected} == expected
        assert [seen[key].dtype for key in ("reward", "episode_return", "episode_length")] == ["f4", "f8", "i8"]
    env.reset()
    assert env.step(np.array([0, 0]))[4]["episode_length"].tolist() == [1, 1]
    env.close()


def test_nested_observations_keep_their_structure_in_final_obs(manager: str) -> None:
    env = make("count_dict", 3, manager=manager)
    env.reset()
    obs, _, _, _, info = env.step(np.array([1, 0, 1]))
    assert obs["episode"].argmax(-1).tolist() == [1, 0, 1]  # one-hot
    assert obs["deep"]["count"].tolist() == [[0] * 3, [1] * 3, [0] * 3]
    assert info["final_obs"]["episode"].argmax(-1).tolist() == [0, 0]
    assert info["final_obs"]["deep"]["count"].tolist() == [[1] * 3, [1] * 3]
    assert info["final_obs"]["deep"]["count"].dtype == np.float32
    kept = info["final_obs"]["deep"]["count"]
    env.step(np.array([1, 1, 1]))
    assert kept.tolist() == [[1] * 3, [1] * 3], "final_obs must not be overwritten by later steps"
    env.close()


@pytest.mark.parametrize(("training", "limit"), [(True, 6), (True, 0), (False, 2)])
def test_training_episodes_may_have_another_limit_than_evaluations(training: bool, limit: int, manager: str) -> None:
    env = make("count", manager=manager, training=training, max_episode_steps=4, collector_max_episode_steps=limit)
    env.reset()
    ends = [env.step(np.array([0, 0]))[2:4] for _ in range(12)]
    counted = limit if training else 4
    assert [truncated.all() for _, truncated in ends] == [counted > 0 and t % counted == 0 for t in range(1, 13)]
    assert not any(terminated.any() for terminated, _ in ends)
    env.close()


def test_each_training_environment_may_have_its_own_limit(manager: str) -> None:
    env: Any = make("count_dict", 4, manager=manager, training=True, collector_max_episode_steps=[2, 0, 5])
    env.reset(seed=0)
    ends: dict[int, list[int]] = {n: [] for n in range(4)}
    for t in range(1, 13):
        obs, _, terminated_N, truncated_N, info = env.step(np.array([0, t == 3, 0, 0]))
        for row, n in enumerate(np.flatnonzero(terminated_N | truncated_N).tolist()):
            ends[n].append(t)
            assert info["final_obs"]["deep"]["count"][row].tolist() == [info["episode_length"][n]] * 3
            assert obs["deep"]["count"][n].tolist() == [0] * 3
    assert ends == {0: [2, 4, 6, 8, 10, 12], 1: [3], 2: [5, 10], 3: [2, 4, 6, 8, 10, 12]}
    env.close()


def test_the_limit_of_a_gymnasium_id_is_replaced_or_switched_off() -> None:
    # 500 steps by default; pushed by its fall, the pole does not fall for 1,100 steps
    for key, limit in (("max_episode_steps", 530), ("collector_max_episode_steps", 530), ("max_episode_steps", 0)):
        options: dict[str, Any] = {"env_id": "CartPole-v1", key: limit}
        env = make("gymnasium", 1, **options)
        obs, _ = env.reset(seed=0)
        lengths = []
        for _ in range(1100):
            x, v, angle, omega = obs[0]
            obs, _, _, _, info = env.step(np.array([int(angle + 0.5 * omega + 0.01 * x + 0.05 * v > 0)]))
            lengths.append(int(info["episode_length"][0]))
        assert max(lengths) == (limit or 1100), key
        env.close()


# -- seeds ------------------------------------------------------------------------------------------------------------


def test_derived_seeds_depend_on_seed_and_path_only() -> None:
    assert derive_seeds(3, 1, "collect", n=4) == derive_seeds(3, 1, "collect", n=4)
    assert derive_seeds(3, 1, "collect", n=8)[:4] == derive_seeds(3, 1, "collect", n=4)
    paths = [(), (0,), (1,), (0, "collect"), (1, "collect"), (0, "evaluate"), *((0, "evaluate", k) for k in range(50))]
    drawn = [value for seed in (0, 1, 2) for path in paths for value in derive_seeds(seed, *path, n=16)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= value < 2**31 for value in drawn)


def test_environments_start_differently_and_reproducibly(manager: str) -> None:
    first, again = make("count", 4, manager=manager), make("count", 4, manager=manager)
    start = first.reset()[1]["start"]
    assert len(set(start.tolist())) == 4
    assert start.tolist() == again.reset()[1]["start"].tolist()
    later = first.reset()[1]["start"]
    assert not set(later.tolist()) & set(start.tolist()), "a second reset must not replay the first"
    assert later.tolist() == again.reset()[1]["start"].tolist()
    seeds = derive_seeds(7, "evaluate", 1, n=4)
    starts = [env.reset(seed=seeds)[1]["start"].tolist() for env in (first, again)]  # type: ignore[arg-type]  # a list
    assert starts[0] == starts[1]
    assert first.reset(seed=7)[1]["start"].tolist() == start.tolist()
    first.close()
    again.close()


# -- configs ----------------------------------------------------------------------------------------------------------


def test_check_env_reports_the_spaces_that_the_vector_has(manager: str) -> None:
    cfg = env_config("count_dict", manager={"type": manager})
    before = copy.deepcopy(cfg)
    spec = check_env(cfg)
    env = create_vector_env(cfg, 2, 0, True)
    assert (spec.observation_space, spec.action_space) == (env.single_observation_space, env.single_action_space)
    assert spec.frame_stack == env.frame_stack == 0
    env.close()
    assert cfg == before
    stacked = check_env(env_config("count", frame_stack=4))
    assert (stacked.observation_space.shape, stacked.frame_stack) == ((8,), 4)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"env_id": "CartPol-v1"}, r"env\.env_id.*'CartPol-v1'.*Did you mean: `CartPole`"),
        ({"env_id": None}, r"env\.env_id is not set"),
        ({"env_id": "no_such_module:Env-v0"}, r"env_id 'no_such_module:Env-v0'.*the module that registers it"),
        ({"env_id": "CartPole-v1", "kwargs": {"gravty": 1}}, r"env\.kwargs \{'gravty': 1\}.*gravty"),
        ({"env_id": "CartPole-v1", "manager": {"type": "subproces"}}, r"env\.manager\.type.*Did you mean 'subprocess'"),
        ({"env_id": "Pendulum-v1", "manager": {"type": "native"}}, r"'native'.*'gymnasium'.*'base' or 'subprocess'"),
        ({"env_id": "CartPole-v1", "episodic_life": True}, r"env\.episodic_life.*lives"),
        ({"type": "cout"}, r"'cout'.*Did you mean 'count'"),
    ],
)
def test_mistakes_are_config_errors_before_anything_starts(overrides: dict[str, Any], message: str) -> None:
    cfg = env_config(**({"manager": {"type": "subprocess"}} | overrides))
    cfg.type = overrides.get("type", cfg.type)
    with pytest.raises(ConfigError, match=message):
        check_env(cfg)
    assert not multiprocessing.active_children()


def test_threads_of_a_native_engine_are_shared_between_the_processes_of_a_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ding_lite.envs.vector_env.usable_cores", lambda: 12)
    for num_envs, local_world_size, num_threads, expected in (
        (64, 1, 0, 12),
        (64, 4, 0, 3),
        (64, 16, 0, 1),
        (2, 1, 0, 2),  # never more threads than environments
        (64, 4, 5, 5),  # as the config says
    ):
        cfg = env_config("engine", manager={"type": "native", "num_threads": num_threads})
        create_vector_env(cfg, num_envs, 0, True, local_world_size)
        assert EngineEnv.threads == expected


def test_builders_of_the_caller_take_the_place_of_the_type(manager: str) -> None:
    cfg = env_config("gymnasium", manager={"type": manager}, frame_stack=2)
    builders = [CountEnv, CountEnv]
    assert check_env(cfg, builders).observation_space.shape == (4,)
    env = create_vector_env(cfg, 2, 0, True, builders=builders)
    assert env.reset()[0].shape == (2, 4)
    env.close()
    with pytest.raises(ConfigError, match="Expected 3 functions that build an environment, as configured, got 2"):
        create_vector_env(cfg, 3, 0, True, builders=builders)
    cfg.manager.type = "native"
    with pytest.raises(ConfigError, match="no engine of their own"):
        check_env(cfg, builders)


class MixedInfoEnv(CountEnv):
    """After action 3 a value in its `info` has another type in each step, after 0 it is 3; `size` fits no array."""

    def play(self, action: int) -> Any:
        *result, info = super().play(action)
        value = (None, "text", np.ones(3))[self.count - 1] if action == 3 else 3
        parts = {"nested": {"of": value}, "value": value, "size": 2**70}
        return *result, info | parts


def test_values_of_different_types_in_info_become_objects(manager: str) -> None:
    cfg = env_config("gymnasium", manager={"type": manager})
    env = create_vector_env(cfg, 2, 0, True, builders=[MixedInfoEnv, MixedInfoEnv])
    env.reset()
    values: list[Any] = [None, "text", np.ones(3)]
    for expected in values:
        info = env.step(np.array([0, 3]))[-1]
        for first, second in (info["value"], info["nested"]["of"]):
            assert (first, type(second)) == (3, type(expected))
            assert np.array_equal(second, expected)
        assert info["size"].tolist() == [2**70] * 2
        assert (info["lives"].dtype, info["_value"].tolist()) == (np.int64, [True, True])
    env.close()
