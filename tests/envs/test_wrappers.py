"""`env.wrappers`: which wrappers, in which order, with all managers; true returns; resuming; mistakes."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from ding_lite.config import compile_config
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.envs.vector_env import check_env, create_vector_env
from ding_lite.utils.key import merge_keys
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config
from tests.envs.test_vector_env import env_config, make
from tests.toys import Toy

MANAGERS = ("base", "subprocess")
HERE = "tests.envs.test_wrappers"


class GridEnv(Toy):
    """Pays 3 a step and 10 at its end, after 4 steps; observation `[2, 2]`, filled with the step's number."""

    observation_space = Box(0, 100, (2, 2), np.float32)

    def observe(self) -> Any:
        return np.full((2, 2), self.count, np.float32)

    def play(self, action: Any) -> Any:
        ended = self.count == 4
        return 10.0 if ended else 3.0, ended


class Noise(gymnasium.ObservationWrapper):
    """Adds random numbers to observations: of the seed of reset, or of a generator that no seed reaches."""

    def __init__(self, env: gymnasium.Env, own: bool = False) -> None:
        super().__init__(env)
        self.own = np.random.default_rng(0) if own else None

    def observation(self, obs: np.ndarray) -> np.ndarray:
        return obs + (self.own or self.np_random).random(obs.shape).astype(np.float32)


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward: Any) -> float:
        return 2 * float(reward)


class Twice(gymnasium.Wrapper):
    """Takes every action twice."""

    def step(self, action: Any) -> Any:
        _, first, *_ = self.env.step(action)
        obs, second, terminated, truncated, info = self.env.step(action)
        return obs, float(first) + float(second), terminated, truncated, info


def not_an_environment(env: gymnasium.Env) -> str:
    return "text"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "grid", GridEnv)


def play(wrappers: list[Any], n_step: int, manager: str = "base", training: bool = True) -> list[tuple[Any, ...]]:
    """Return observation, reward, flags, return and length of one environment after each step."""
    env = make("grid", 1, manager=manager, training=training, wrappers=wrappers)
    env.reset()
    rows = []
    for _ in range(n_step):
        obs, reward, terminated, truncated, info = env.step(np.zeros(1, np.int64))
        rows.append((obs[0].copy(), *(float(x[0]) for x in (reward, terminated, truncated))))
        rows[-1] += tuple(float(info[key][0]) for key in ("episode_return", "episode_length"))
    env.close()
    return rows


@pytest.mark.parametrize("manager", MANAGERS)
def test_wrappers_are_applied_in_order_by_every_manager(manager: str) -> None:
    limit = dict(name="TimeLimit", max_episode_steps=3)
    rows = play(["FlattenObservation", limit, f"{HERE}:Doubled"], 4, manager)
    assert rows[0][0].tolist() == [1.0] * 4
    assert [row[1:4] for row in rows] == [(6, 0, 0), (6, 0, 0), (6, 0, 1), (6, 0, 0)]
    rescaled = [dict(name="RescaleObservation", min_obs=0.0, max_obs=1.0), "FlattenObservation"]
    assert play(rescaled, 1)[0][0].tolist() == pytest.approx([0.01] * 4)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("training", [True, False])
def test_returns_are_those_of_the_environment_below_its_wrappers(manager: str, training: bool) -> None:
    rows = play([f"{HERE}:Doubled", dict(name="ClipReward", min_reward=-1.0, max_reward=1.0)], 5, manager, training)
    assert [row[1] for row in rows] == [1.0] * 5
    # 3, 6, 9, then 10 at the end of the episode, then the next one
    assert [row[4:] for row in rows] == [(3, 1), (6, 2), (9, 3), (19, 4), (3, 1)]


class LookalikeEnv(GridEnv):
    """The grid, whose infos have keys that vector environments or the wrappers here use."""

    names = ("true_reward", "episode_return", "episode_length", "part_ended", "final_obs", "final_info")
    fakes: ClassVar = dict.fromkeys(names, 400.0)

    def begin(self) -> Any:
        return dict(self.fakes)

    def play(self, action: Any) -> Any:
        return *super().play(action), False, dict(self.fakes)


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("wrappers", [[], [f"{HERE}:Doubled"]])
def test_keys_of_the_environments_own_info_are_not_taken_for_ours(manager: str, wrappers: list[Any]) -> None:
    env = create_vector_env(
        env_config(manager={"type": manager}, wrappers=wrappers), 2, 7, True, builders=[LookalikeEnv] * 2
    )
    env.reset()
    infos = [env.step(np.zeros(2, np.int64))[4] for _ in range(5)]
    env.close()
    assert [info["episode_return"].tolist() for info in infos] == [[total] * 2 for total in (3, 6, 9, 19, 3)]
    assert [info["episode_length"].tolist() for info in infos] == [[length] * 2 for length in (1, 2, 3, 4, 1)]
    assert [info["final_obs"].tolist() if "final_obs" in info else None for info in infos] == [
        *[None] * 3,
        np.full((2, 2, 2), 4).tolist(),
        None,
    ]
    assert not any("part_ended" in info for info in infos)


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_wrapper_that_repeats_actions_pays_for_all_of_them(manager: str) -> None:
    rows = play([f"{HERE}:Twice", f"{HERE}:Doubled"], 3, manager)
    assert [row[1] for row in rows] == [12, 26, 12]
    assert [row[4:] for row in rows] == [(6, 1), (19, 2), (6, 1)]


def restored(wrappers: list[Any]) -> tuple[Any, ...]:
    """Stop after 2 of 7 steps; return which environments came back, and what was seen with and without stopping."""
    config = env_config("grid", wrappers=wrappers)
    whole, again = (create_vector_env(config, 2, 7, True) for _ in range(2))
    assert isinstance(whole, RestorableVectorEnv)
    assert isinstance(again, RestorableVectorEnv)
    whole.reset()
    for _ in range(6):
        whole.step(np.zeros(2, np.int64))
    _, _, restored_N = again.load_state_dict(whole.state_dict())
    seen = [[env.step(np.ones(2, np.int64))[0].copy() for _ in range(5)] for env in (whole, again)]
    return restored_N, *seen


def test_random_numbers_of_the_seed_come_back_when_a_run_is_resumed() -> None:
    restored_N, whole, again = restored([f"{HERE}:Noise"])
    assert restored_N.all()
    np.testing.assert_array_equal(whole, again)
    assert check_env(env_config("grid", wrappers=[f"{HERE}:Noise"])).notes == ()


def test_random_numbers_of_a_wrappers_own_are_found_before_a_run_and_a_resume() -> None:
    own = [dict(name=f"{HERE}:Noise", own=True)]
    (note,) = check_env(env_config("grid", wrappers=own)).notes
    assert note.startswith("env.wrappers: an episode that is played twice with the same seed and actions differs")
    restored_N, _, _ = restored(own)
    assert not restored_N.any()


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        (["FlatenObservation"], r"gymnasium\.wrappers has no 'FlatenObservation'\. Did you mean 'FlattenObservation'"),
        (["vector"], r"gymnasium\.wrappers has no 'vector'"),
        (["nowhere_at_all:Wrapper"], r"'nowhere_at_all:Wrapper' cannot be imported: No module named"),
        ([f"{HERE}:Missing"], r"Missing' cannot be imported: module 'tests\.envs\.test_wrappers' has no attribute"),
        ([dict(max_episode_steps=3)], r"expected a name such as 'FlattenObservation', or dict\(name='TimeLimit'"),
        ([3], r"expected a name such as 'FlattenObservation'.*got 3"),
        ("FlattenObservation", r"env\.wrappers: expected list, got str"),
        (["NormalizeObservation"], r"'NormalizeObservation' would give each.*set env\.norm_obs=True instead\.$"),
        ([dict(name="NormalizeReward", gamma=0.9)], r"set env\.norm_reward=True instead\.$"),
    ],
)
def test_a_wrong_name_is_refused_when_the_config_compiles(wrappers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_config((merge_keys(main_config, dict(env=dict(wrappers=wrappers))), create_config))


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        ([dict(name="TimeLimit", steps=3)], r"'TimeLimit' with {'steps': 3} fails: TypeError: .*unexpected keyword"),
        (["TimeLimit"], r"'TimeLimit' with {} fails: TypeError: .*missing 1 required"),
        ([f"{HERE}:not_an_environment"], r"returned a str, expected a gymnasium\.Env"),
    ],
)
def test_wrong_arguments_are_refused_before_the_run_starts(wrappers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_env(env_config("grid", wrappers=wrappers))


def test_a_label_that_does_not_exist_is_not_flattened() -> None:
    env = Toy(observation_space=Discrete(4, start=1), seen=0)  # gymnasium would make label 4 of it
    with pytest.raises(ConfigError, match=r"'FlattenObservation' gets an observation with the value 0 .*start=1"):
        check_env(env_config(wrappers=["FlattenObservation"]), [lambda _: env])


@pytest.mark.parametrize("manager", ["native", "env_pool"])
def test_a_native_engine_refuses_wrappers_in_one_line(manager: str) -> None:
    main = merge_keys(main_config, dict(env=dict(wrappers=["FlattenObservation"])))
    with pytest.raises(ConfigError, match=r"env\.wrappers: a native engine runs all environments at once"):
        compile_config((main, merge_keys(create_config, dict(env_manager=dict(type=manager)))))
