"""A fault of an environment, or of an engine of a user's own class, is one line before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import ale_py
import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ding_lite.envs import check_env
from ding_lite.envs.checks import find_id
from ding_lite.utils import ConfigError
from ding_lite.utils.registry import ENV_REGISTRY
from tests.envs.test_vector_env import env_config
from tests.seams.corridors import Corridor
from tests.toys import Toy


class Sound(Toy):
    """An environment that keeps the interface, closed or not."""

    observation_space = Box(0, 1, (2,), np.float32)
    closed = 0

    def __init__(self, cfg_env: Any) -> None:
        type(self).closed = 0

    def close(self) -> None:
        type(self).closed += 1


class NoEnv:
    def __init__(self, cfg_env: Any) -> None: ...


OLD = "Port an environment that is written for gym before 0.26"


def raising(error: Exception) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def returning(*result: Any) -> Any:
    return lambda self, *args, **kwargs: result if len(result) > 1 else result[0]


def faulty(**attributes: Any) -> type:
    return type("Faulty", (Sound,), attributes)


ZEROS, TRIPLE = np.zeros(2, np.float32), np.zeros(3, np.float32)
NEAR_AND_FAR = Dict({"near": Box(0, 1, (2,), np.float32), "far": Box(0, 1, (2,), np.float32)})
OLD_STEP = faulty(step=returning(ZEROS, 1.0, False, {}))


def inner(cfg_env: Any) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(OLD_STEP(cfg_env), 9)


FAULTS: dict[str, tuple[Any, str]] = {
    "unbuildable": (
        faulty(__init__=raising(FileNotFoundError("no such ROM:\n pong.bin"))),
        r"cannot be built: .*test_checks.py, line \d+: FileNotFoundError: no such ROM: pong.bin$",
    ),
    "reward": (faulty(step=returning(ZEROS, np.ones(1), False, False, {})), r": step returned the reward = array"),
    "empty space": (
        faulty(observation_space=Box(0, 1, (0,), np.float32)),
        r": observation_space is Box.*\(0,\).*, expected .* with at least one number: ",
    ),
    "shape": (faulty(step=returning(TRIPLE, 1.0, False, False, {})), r": step returned obs = array.* of shape \(3,\)"),
    "first shape": (faulty(reset=returning(ZEROS[None], {})), r": reset returned obs = array.* of shape \(1, 2\), exp"),
    "keys": (
        faulty(observation_space=NEAR_AND_FAR, reset=returning({"near": ZEROS}, {})),
        r"reset returned obs with the keys \['near'\], but the space is a Dict with the keys \['far', 'n",
    ),
    "old step": (OLD_STEP, rf": step returned 4 values .*, expected 5\. {OLD}"),
    "old reset": (
        faulty(reset=lambda self: ZEROS), rf"cannot be reset: .*TypeError: .*unexpected keyword argument 'seed'\. {OLD}"
    ),
    "old result": (faulty(reset=returning(ZEROS)), rf": reset returned a ndarray, expected \(obs, info\)\. {OLD}"),
    # The old interface below gymnasium's own wrapper, which unpacks five values.
    "old inside": (
        type("Old", (gymnasium.Wrapper,), {"__init__": lambda self, cfg: gymnasium.Wrapper.__init__(self, inner(cfg))}),
        rf"cannot take a step: .*ValueError: not enough values to unpack .*\. {OLD}",
    ),
    "raises": (
        faulty(step=raising(ArithmeticError("the pole\nis on fire"))),
        r"cannot take a step: .*test_checks.py, line \d+: ArithmeticError: the pole is on fire$",
    ),
    "no environment": (NoEnv, rf"is a NoEnv: expected a gymnasium\.Env\. {OLD}"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_environment_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls, message = FAULTS[name]
    monkeypatch.setitem(ENV_REGISTRY, "faulty", cls)
    with pytest.raises(ConfigError, match=rf"^Environment 'faulty'.*{message}"):
        check_env(env_config("faulty"))
    if hasattr(cls, "closed"):
        assert cls.closed == (name != "unbuildable")


def test_a_sound_environment_is_closed_and_named_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "faulty", Sound)
    assert check_env(env_config("faulty")).observation_space == Sound.observation_space
    assert Sound.closed == 1
    monkeypatch.setitem(ENV_REGISTRY, "faulty", FAULTS["reward"][0])
    with pytest.raises(ConfigError, match=r"^Environment 'Pole-v9': step"):
        check_env(env_config("faulty", env_id="Pole-v9"))


def test_envpool_that_is_not_installed_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ConfigError, match=r"needs the extra 'envpool' .*: pip install 'ding_lite\[envpool\]'\.$"):
        check_env(env_config(env_id="CartPole-v1", manager={"type": "env_pool"}))


@pytest.mark.parametrize(
    ("env_id", "module", "extra"), [("LunarLander-v3", "Box2D", "box2d"), ("Hopper-v5", "mujoco", "mujoco")]
)
def test_a_package_that_gymnasium_misses_is_an_error_that_names_our_extra(
    monkeypatch: pytest.MonkeyPatch, env_id: str, module: str, extra: str
) -> None:
    with suppress(gymnasium.error.DependencyNotInstalled):
        gymnasium.envs.registration.load_env_creator(str(gymnasium.spec(env_id).entry_point))  # so that all is put back
    for name in [name for name in sys.modules if name.startswith(f"gymnasium.envs.{extra}")]:
        monkeypatch.delitem(sys.modules, name)  # so that they import the package again
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as error:
        check_env(env_config(env_id=env_id))
    message = str(error.value)
    assert message.startswith(f"env.env_id '{env_id}' needs the extra '{extra}' (")
    assert message.endswith(f"is not installed): pip install 'ding_lite[{extra}]'.")


@pytest.mark.parametrize(
    ("env_id", "hint"),
    [("Pant/Ant-v5", "Have you installed the proper package"), ("ALL/Pong-v5", "Did you mean: `ALE`")],
)
def test_an_id_that_gymnasium_does_not_know_is_answered_by_its_hint_and_ours(env_id: str, hint: str) -> None:
    gymnasium.register_envs(ale_py)
    with pytest.raises(ConfigError, match=rf"env\.env_id '{env_id}': .*{hint}.*name it, 'module:{env_id}'\.$"):
        check_env(env_config(env_id=env_id))


def test_an_id_without_a_version_means_the_newest_as_in_gymnasium() -> None:
    for name in ("CartPole", "Pendulum", "MountainCar"):
        made = gymnasium.make(name)
        assert made.spec is not None
        assert find_id(name).id == made.spec.id
    assert check_env(env_config(env_id="CartPole")).action_space == Discrete(2)


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
@pytest.mark.parametrize("start", [0, 3])
def test_a_trial_step_obeys_the_action_mask(shape: tuple[int, ...], start: int) -> None:
    mask = np.zeros(shape, np.int8)
    mask[..., 2] = 1

    class Masked(Toy):
        observation_space = Dict(action_mask=gymnasium.spaces.MultiBinary(shape))
        action_space = Discrete(4, start=start) if len(shape) == 1 else MultiDiscrete([4, 4], start=[start] * 2)
        seen = {"action_mask": mask}

        def play(self, action: Any) -> Any:
            assert np.all(action == start + 2)
            assert action in self.action_space
            return (0.0,)

    check_env(env_config(), [lambda cfg: Masked()])


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
        ({"make_native": lambda cfg, n, threads: 1 / 0}, "cannot be built by make_native: .*ZeroDivisionError"),
        ({"mode": AutoresetMode.NEXT_STEP}, r"its metadata\['autoreset_mode'\] is .*NEXT_STEP"),
        ({"change": at_step(obs=lambda obs: obs[:, :1])}, r"observations have the shapes \[\(2, 1\)\], expected"),
        (
            {"change": at_step(reward=lambda reward: reward[:, None])},
            "step returned reward .* a NumPy array of 2 numbers",
        ),
        ({"change": at_step(info=without_final)}, r"info\['final_obs'\] must be a NumPy array of N obs.*got NoneType"),
        ({"change": at_step(obs=torch.as_tensor)}, "its observations are of type Tensor, expected NumPy arrays"),
        ({"change": at_step(reward=torch.as_tensor)}, "reward Tensor .*, expected a NumPy array of 2 numbers"),
        ({"change": at_step(terminated=torch.as_tensor)}, "terminated Tensor .*, expected a NumPy array of 2 bools"),
        ({"change": lambda result: result[:4]}, "step must return"),
        (
            {"change": at_step(terminated=np.zeros_like, truncated=np.zeros_like)},
            "no episode has ended after 9 steps: truncate at env.max_episode_steps",
        ),
    ],
)
def test_a_violation_is_one_line(attributes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_static = {name: staticmethod(value) if callable(value) else value for name, value in attributes.items()}
    monkeypatch.setitem(ENV_REGISTRY, "walk", type("BadWalk", (Walk,), as_static))
    with pytest.raises(ConfigError, match=message):
        check_env(env_config("walk", manager={"type": "native"}, max_episode_steps=9))


def test_an_engine_that_obeys_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "walk", Walk)
    spec = check_env(env_config("walk", manager={"type": "native"}))
    assert spec.observation_space == Walk.observation_space
