"""An engine of a user's own class is checked at the start of a run, one line for each way to break the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs import check_env
from ding_lite.utils import ConfigError
from ding_lite.utils.registry import ENV_REGISTRY
from tests.envs.test_vector_env import env_config
from tests.seams.corridors import Corridor

Change = Callable[[Any], Any]


class Engine(SyncVectorEnv):
    """An engine that obeys the contract, but for what `change` does to the results of reset and step."""

    change: Change

    def reset(self, **options: Any) -> Any:
        return self.change(super().reset(**options))

    def step(self, actions: Any) -> Any:
        return self.change(super().step(actions))


class Walk(Corridor):
    """A corridor with an engine."""

    mode: ClassVar = AutoresetMode.SAME_STEP
    change: ClassVar[Change] = staticmethod(lambda result: result)

    def __init__(self, cfg_env: EasyDict) -> None:
        super().__init__(length=2.0)

    @classmethod
    def make_native(cls, cfg_env: EasyDict, num_envs: int, num_threads: int) -> Any:
        env = Engine([lambda: cls(cfg_env)] * num_envs, autoreset_mode=cls.mode)
        env.change = cls.change
        return env


def at_step(**changes: Callable[[Any], Any]) -> Change:
    """Return a change of parts of what `step` returns, by their names."""
    names = ("obs", "reward", "terminated", "truncated", "info")

    def change(result: Any) -> Any:
        if len(result) == 2:
            return result
        parts = dict(zip(names, result, strict=True))
        return tuple((parts | {name: fn(parts[name]) for name, fn in changes.items()}).values())

    return change


def without_final(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key != "final_obs"}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"make_native": lambda cfg, n, threads: Walk(cfg)},
            "it returned a Walk, expected a gymnasium.vector.VectorEnv",
        ),
        ({"make_native": lambda cfg, n, threads: 1 / 0}, "cannot be built by make_native: .*ZeroDivisionError"),
        ({"make_native": lambda cfg, n, threads: Walk.make_native(cfg, 3, 1)}, "its num_envs is 3, expected 2"),
        ({"mode": AutoresetMode.NEXT_STEP}, r"its metadata\['autoreset_mode'\] is .*NEXT_STEP"),
        ({"change": at_step(obs=lambda obs: obs[:, :1])}, r"observations have the shapes \[\(2, 1\)\], expected"),
        ({"change": at_step(reward=lambda reward: reward[:, None])}, "step returned reward .* an array of 2 numbers"),
        (
            {"change": at_step(truncated=lambda flag: flag.astype(int))},
            "step returned truncated .* an array of 2 bools",
        ),
        ({"change": at_step(info=without_final)}, r"info\['final_obs'\] must hold N observations"),
        ({"change": lambda result: result[:4]}, "step must return"),
        ({"change": lambda result: result[0] if len(result) == 2 else result}, r"reset must return \(obs, info\)"),
        (
            {"change": at_step(terminated=np.zeros_like, truncated=np.zeros_like)},
            "no episode has ended after 9 steps: truncate at env.max_episode_steps",
        ),
    ],
)
def test_a_violation_is_one_line(attributes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_static = {name: staticmethod(value) if callable(value) else value for name, value in attributes.items()}
    monkeypatch.setitem(ENV_REGISTRY, "walk", type("BadWalk", (Walk,), as_static))
    with pytest.raises(ConfigError, match=message) as error:
        check_env(env_config("walk", manager={"type": "native"}, max_episode_steps=9))
    assert "\n" not in str(error.value)


def test_other_spaces_than_those_of_the_single_environment_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Walk):
        def __init__(self, cfg_env: EasyDict) -> None:
            super().__init__(cfg_env)
            self.action_space = Discrete(2, start=cfg_env.get("first", 0))

        @classmethod
        def make_native(cls, cfg_env: EasyDict, num_envs: int, num_threads: int) -> VectorEnv:
            return super().make_native(EasyDict(cfg_env, first=1), num_envs, num_threads)

    monkeypatch.setitem(ENV_REGISTRY, "walk", Other)
    with pytest.raises(ConfigError, match=r"its single_action_space is Discrete\(2, start=1\), expected Discrete\(2\)"):
        check_env(env_config("walk", manager={"type": "native"}))


def test_an_engine_that_obeys_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "walk", Walk)
    spec = check_env(env_config("walk", manager={"type": "native"}))
    assert spec.observation_space == Walk.observation_space
