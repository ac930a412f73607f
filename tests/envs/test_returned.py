"""What environments return is cast if it fits its space; anything else ends the run in one line, with all managers."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs import EnvError, check_env, create_vector_env
from ding_lite.envs.returned import fit
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from tests.envs.test_vector_env import MANAGERS, env_config

VECTOR, BYTES = Box(-1, 1, (3,), np.float32), Box(0, 255, (2, 2), np.uint8)
MASKED = Dict(action_mask=Box(1, 1, (2,), np.int8), place=Discrete(5, start=2), deep=Dict(x=VECTOR))
GOOD: dict[str, Any] = {"action_mask": np.ones(2, np.int8), "place": 2, "deep": {"x": np.zeros(3, np.float32)}}


class Replies(gymnasium.Env):
    """Returns a member of its space at first, and from its second step on what it is given."""

    action_space = Discrete(2)
    given: Any

    def __init__(self, cfg_env: EasyDict, given: Any = None) -> None:
        self.observation_space, self._obs, self._rest = given or self.given

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._count = 0
        return self.observation_space.sample(), {}

    def step(self, action: int) -> Any:
        self._count += 1
        obs = self.observation_space.sample() if self._count == 1 else self._obs
        return (obs, *(REST if self._count == 1 else self._rest))

    @classmethod
    def make_native(cls, cfg_env: EasyDict, num_envs: int, num_threads: int) -> VectorEnv:
        return Engine([lambda: cls(cfg_env)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


class Engine(SyncVectorEnv):
    """An engine whose arrays have the type and the shape of what its environments return."""

    def step(self, actions: Any) -> Any:
        rows = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        return *map(np.array, list(zip(*rows, strict=True))[:4]), {}


REST: Any = (1.0, False, False, {})


def two_steps(monkeypatch: pytest.MonkeyPatch, manager: str, *given: Any, **options: Any) -> Any:
    """Return what the second step of two environments with this space, observation and other results returns."""
    monkeypatch.setattr(Replies, "given", given, raising=False)  # for the engine; the others get it as an argument
    monkeypatch.setitem(ENV_REGISTRY, "replies", Replies)
    builders = None if manager == "native" else [partial(Replies, given=given)] * 2
    cfg = env_config("replies", manager={"type": manager}, env_id="Mine-v3", **options)
    env = create_vector_env(cfg, 2, 7, True, builders=builders)
    try:
        env.reset(seed=0)
        env.step(np.zeros(2, np.int64))
        return env.step(np.zeros(2, np.int64))
    finally:
        env.close()


@pytest.mark.parametrize("manager", ["base", "native"])
@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (VECTOR, np.zeros(1, np.float32), "= .* of shape .*, expected .*3.* of its space Box.*"),  # would be spread
        (VECTOR, 0.5, "= .* of shape .*, expected .*3.* of its space Box.*"),
        (VECTOR, [0.0, 0.0, None], "= .* of type .*, expected numbers of the space Box.*"),  # would become NaN
        (VECTOR, [0.0, np.nan, 0.0], "with nan in environment 0, expected finite numbers of the space Box.*"),
        (VECTOR, [0.0, 1e300, 0.0], "with inf in environment 0, expected finite numbers of the space Box.*"),
        (BYTES, np.full((2, 2), 300), r"with the value 300 \(int64\), not in its space Box\(0, 255, \(2, 2\), uint8\)"),
        (BYTES, np.full((2, 2), 0.5), r"with the value 0.5 \(float64\), not in its space Box.*"),
        (
            Box(0, 255, (2,), np.int64),  # which may become bytes later
            np.array([300, 0]),
            r"with the value 300 \(int64\), not in its space Box\(0, 255, \(2,\), int64\)",
        ),
        (Box(0, 255, (2,), np.int64), np.array([0.5, 0]), r"with the value 0.5 \(float64\), not in its space Box.*"),
        (Discrete(5, start=2), 7, r"with the value 7 \(int64\), not in its space Discrete\(5, start=2\)"),
        (MultiDiscrete([2, 3]), [1, 3], r"with the value 3 \(int64\), not in its space MultiDiscrete.*"),
        (MultiBinary(2), np.array([0, None]), "= .* of type ndarray, expected numbers of the space MultiBinary.*"),
        (MASKED, GOOD | {"place": 1}, r"\['place'\] with the value 1 \(int64\), not in its space Discrete.*"),
        (MASKED, GOOD | {"deep": {"x": 1}}, r"\['deep'\]\['x'\] = 1 of shape \(\), expected \(3,\) of its space Box.*"),
        (MASKED, {"place": 3}, r"with the keys \['place'\], but the space is a Dict with .*'deep', 'place'\]"),
    ],
)
def test_an_observation_that_does_not_fit_ends_the_run_in_one_line(
    manager: str, space: Any, obs: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if manager == "native" and (not isinstance(space, Box) or space.dtype == np.int64):
        pytest.skip("an engine has the policy's spaces, in which such observations are vectors of floats")
    with pytest.raises(EnvError) as error:
        two_steps(monkeypatch, manager, space, obs, REST)
    assert re.fullmatch(rf"Environment 'Mine-v3': step returned obs ?{message}\.", str(error.value)), error.value


class Huge:
    """A tensor on a GPU, or with a gradient, does not become an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("use detach() instead")


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize(
    ("obs", "rest", "message"),
    [
        (Huge(), REST, "= .*Huge object.* of type Huge, expected numbers of the space"),
        ([10**5000, 0, 0], REST, "of type list, expected numbers of the space"),
        (np.zeros(3), (10**5000, *REST[1:]), "the reward = .*, expected one number"),
        (
            np.zeros(3),
            (1.0, True, False, {"key": 10**400}),
            r"info\['key'\] is 10+\.\.\., expected a number, as float64",
        ),
        (np.zeros(3), (1.0, True, False, {"key": 10**5000}), r"info\['key'\] is .*, expected a number, as float64"),
    ],
)
def test_what_numpy_cannot_take_is_one_line(
    manager: str, obs: Any, rest: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvError, match=message):
        two_steps(monkeypatch, manager, VECTOR, obs, rest, info_keys=["key"])


@pytest.mark.parametrize("manager", [*MANAGERS, "native"])
@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (BYTES, np.full((2, 2), 255), np.full((2, 2), 255, np.uint8)),
        (BYTES, [[1.0, 0.0], [True, False]], np.eye(2, dtype=np.uint8)[[0, 0]]),
        (VECTOR, np.array([5, -7.5, 1e-9]), np.array([5, -7.5, 1e-9], np.float32)),  # bounds of a Box are not enforced
        (VECTOR, [1, 2, 3], np.array([1, 2, 3], np.float32)),
    ],
)
def test_an_observation_that_fits_is_cast(
    manager: str, space: Any, obs: Any, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = two_steps(monkeypatch, manager, space, obs, REST)[0]
    assert seen.dtype == expected.dtype
    np.testing.assert_array_equal(seen.reshape(2, *expected.shape), [expected] * 2)


@pytest.mark.parametrize("flags", [[0, 1], (False, True), np.array([0.0, 1.0])])
def test_numbers_of_a_space_become_an_array_of_its_type(flags: Any) -> None:
    fitted = fit(flags, MultiBinary(2), "obs")
    assert (fitted.dtype, fitted.tolist()) == (np.int8, [0, 1])


@pytest.mark.parametrize(
    ("manager", "obs", "rest", "message"),
    [
        ("base", 0, (1.0, False, False), r"4 values \(ndarray, float, bool, bool\), expected 5\. Port an env"),
        ("base", 0, (None, False, False, {}), r"the reward = None, expected one number: return float\(reward\)\."),
        ("base", 0, ("1", False, False, {}), "the reward = '1', expected one number"),
        ("base", 0, ([1.0], False, False, {}), r"the reward = \[1\.0\] of shape \(1,\), expected one number"),
        ("base", 0, (np.nan, False, False, {}), r"rewards with nan in environment 0, expected finite numbers\."),
        ("base", 0, (1e39, False, False, {}), r"rewards with inf in environment 0, expected finite numbers\."),
        ("base", 0, (1.0, None, False, {}), r"terminated = None, expected True or False\."),
        ("base", 0, (1.0, False, 2, {}), r"truncated = 2, expected True or False\."),
        ("base", 0, (1.0, False, False, None), r"info = None, expected a dict\."),
        ("base", np.inf, (1.0, True, False, {}), "obs, the last ones of episodes, with inf in environment 0"),
        ("subprocess", None, REST, r"obs = array\(\[0\.\]\) of shape \(1,\), expected \(3,\)"),
        ("subprocess", 0, (None, False, False, {}), "the reward = None, expected one number"),
    ],
)
def test_a_malformed_step_ends_the_run_in_one_line_and_restarts_no_worker(
    manager: str, obs: Any, rest: Any, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shown = np.zeros(1) if obs is None else np.full(3, obs, np.float32)
    with pytest.raises(EnvError, match=rf"^Environment 'Mine-v3': step returned {message}"):
        two_steps(monkeypatch, manager, VECTOR, shown, rest)
    assert caplog.messages == []


def test_numbers_and_flags_of_other_types_are_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    rest: Any = (np.array(2), np.True_, 0, {})
    _, reward_N, terminated_N, truncated_N, info = two_steps(monkeypatch, "base", VECTOR, np.zeros(3), rest)
    assert (reward_N.tolist(), terminated_N.tolist(), truncated_N.tolist()) == ([2, 2], [True] * 2, [False] * 2)
    assert info["final_obs"].dtype == np.float32


@pytest.mark.parametrize("missing", ["observation_space", "action_space"])
@pytest.mark.parametrize("space", [None, (3,)])
def test_a_missing_space_is_found_before_a_run(missing: str, space: Any) -> None:
    env = gymnasium.Env()
    env.observation_space, env.action_space = VECTOR, Discrete(2)
    setattr(env, missing, space)
    expected = (
        rf"^Environment 'Mine-v3': {missing} is {re.escape(str(space))}, expected a space of gymnasium\.spaces with"
    )
    with pytest.raises(ConfigError, match=expected):
        check_env(env_config(env_id="Mine-v3"), [lambda cfg: env])
