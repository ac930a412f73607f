"""What is wrong with an environment is one line that names it and the cause, before anything starts."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from ding_lite.envs import check_env
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError
from tests.envs.test_vector_env import env_config


class Sound(gymnasium.Env):
    """An environment that keeps the interface, closed or not."""

    observation_space: gymnasium.Space[Any] = Box(0, 1, (2,), np.float32)
    action_space = Discrete(2)
    closed = 0

    def __init__(self, cfg_env: Any) -> None:
        type(self).closed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, False, {}

    def close(self) -> None:
        type(self).closed += 1


class Unbuildable(Sound):
    def __init__(self, cfg_env: Any) -> None:
        raise FileNotFoundError("no such ROM:\n pong.bin")


class VectorReward(Sound):
    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), np.ones(1), False, False, {}


class OtherShape(Sound):
    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 1.0, False, False, {}


class OtherFirstShape(Sound):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros((1, 2), np.float32), {}


class OtherKeys(Sound):
    observation_space = Dict({"near": Box(0, 1, (2,), np.float32), "far": Box(0, 1, (2,), np.float32)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return {"near": np.zeros(2, np.float32)}, {}


class OldStep(Sound):
    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, {}


class OldReset(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32)


class OldResult(Sound):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(2, np.float32)


class OldInside(gymnasium.Wrapper):
    """The old interface below gymnasium's own wrapper, which unpacks five values."""

    def __init__(self, cfg_env: Any) -> None:
        super().__init__(gymnasium.wrappers.TimeLimit(OldStep(cfg_env), 9))


class Raises(Sound):
    def step(self, action: Any) -> Any:
        raise ArithmeticError("the pole\nis on fire")


class NoEnv:
    def __init__(self, cfg_env: Any) -> None: ...


OLD = "This is the interface of gym before 0.26"


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Unbuildable, r"cannot be built: .*test_checks.py, line \d+: FileNotFoundError: no such ROM: pong.bin$"),
        (VectorReward, r": step returned a reward of shape \(1,\), expected one number: return float\(reward\)\.$"),
        (OtherShape, r": step returned an observation of shape \(3,\), but its observation_space says \(2,\)\.$"),
        (OtherFirstShape, r": reset returned an observation of shape \(1, 2\), but its observation_space says \(2,\)"),
        (OtherKeys, r"reset returned an observation with the keys \['near'\], but observation_space has \['far', 'n"),
        (OldStep, rf": step returned 4 values, expected 5\. {OLD}"),
        (OldReset, rf"cannot be reset: .*TypeError: .*unexpected keyword argument 'seed' {OLD}"),
        (OldResult, rf": reset returned a ndarray, expected \(obs, info\)\. {OLD}"),
        (OldInside, rf"cannot take a step: .*ValueError: not enough values to unpack .* {OLD}"),
        (Raises, r"cannot take a step: .*test_checks.py, line \d+: ArithmeticError: the pole is on fire$"),
        (NoEnv, rf"is a NoEnv: expected a gymnasium\.Env\. {OLD}"),
    ],
)
def test_a_faulty_environment_is_one_line(cls: type, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "faulty", cls)
    with pytest.raises(ConfigError, match=rf"^Environment 'faulty'.*{message}") as error:
        check_env(env_config("faulty"))
    assert "\n" not in str(error.value)
    if hasattr(cls, "closed"):
        assert cls.closed == (cls is not Unbuildable)


def test_a_sound_environment_is_closed_and_named_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "faulty", Sound)
    assert check_env(env_config("faulty")).observation_space == Sound.observation_space
    assert Sound.closed == 1
    monkeypatch.setitem(ENV_REGISTRY, "faulty", VectorReward)
    with pytest.raises(ConfigError, match=r"^Environment 'Pole-v9': step"):
        check_env(env_config("faulty", env_id="Pole-v9"))
