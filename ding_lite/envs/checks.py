"""Tries an environment before a run starts, and reports a fault in one line with the environment and the cause.

This module never imports torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs.actions import ActionUnits, sample_masked
from ding_lite.envs.returned import OLD_INTERFACE, EnvError
from ding_lite.envs.seeded_env import SeededEnv
from ding_lite.utils.registry import ConfigError, UserError, closest, place_of

OLD_SIGNS = ("values to unpack", "unexpected keyword argument 'seed'", "unexpected keyword argument 'options'")
VERSION = re.compile(r"-v\d+$")  # of an id


def given_id(env_id: str | None) -> str:
    """Return `env.env_id`, or raise `ConfigError` if it is not set."""
    if not env_id:
        raise ConfigError("env.env_id is not set: expected a gymnasium id such as 'CartPole-v1'.")
    return env_id


def find_id(env_id: str | None) -> Any:
    """Return gymnasium's spec of `env.env_id`, or raise `ConfigError` if there is none."""
    env_id = given_id(env_id)
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.NamespaceNotFound as error:
        namespace, _, name = env_id.partition("/")
        known = [  # of all ids, the most similar one is seldom meant
            key
            for key in gymnasium.registry
            if key.endswith(f"/{name}") or closest(namespace, [key.rpartition("/")[0]])
        ]
        hint = (
            closest(env_id, known) or f" Install its package, or name the module that registers it: 'module:{env_id}'."
        )
        raise ConfigError(f"env.env_id: gymnasium knows no '{env_id}'.{hint}") from error
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        names = {VERSION.sub("", key): key for key in gymnasium.registry}  # a version makes all ids look alike
        similar = difflib.get_close_matches(VERSION.sub("", env_id)[:100], names, n=1, cutoff=0.7)
        hint = f" Did you mean '{names[similar[0]]}'?" if similar else ""
        raise ConfigError(
            f"env.env_id: gymnasium knows no '{env_id}'.{hint} An environment of your own: import the module that "
            f"registers it, or name it, 'module:{env_id}'."
        ) from error


def build_checked(
    build: Callable[[], gymnasium.Env], name: str, options: dict[str, Any] | None = None
) -> tuple[gymnasium.Env, dict[str, Any]]:
    """Build an environment, reset it and take one step.

    Args:
        build: builds the environment, without wrappers.
        name: the environment's name in messages.
        options: of the reset.

    Returns:
        The environment, which the caller has to close, and the `info` of its reset.

    Raises:
        ConfigError: the environment cannot be built, raises an error, or violates gymnasium's interface.
    """
    env = attempt(build, name, "be built")
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"Environment '{name}' is a {type(env).__name__}: expected a gymnasium.Env. {OLD_INTERFACE}.")
    try:
        for key in ("observation_space", "action_space"):
            _check_space(getattr(env, key, None), key, name)
        played = SeededEnv(env, 0, name, options)
        obs, info = attempt(lambda: played.reset(seed=0), name, "be reset")
        env.action_space.seed(0)
        attempt(lambda: played.step(draw_action(env, obs)), name, "take a step")
    except BaseException:
        env.close()
        raise
    return env, info


def _check_space(space: Any, key: str, name: str) -> None:
    if not isinstance(space, gymnasium.Space):
        raise ConfigError(
            f"Environment '{name}': {key} is {space!r}, expected a space of gymnasium.spaces: set self.{key} in its "
            "__init__."
        )


def check_lives(cfg_env: EasyDict, info: dict[str, Any]) -> None:
    """Raise `ConfigError` if `episodic_life` is set and the `info` of a reset has no lives."""
    if cfg_env.episodic_life and "lives" not in info:
        raise ConfigError(
            "env.episodic_life is True, but the environment has no info['lives']: set the key to False, or add them."
        )


def attempt(call: Callable[[], Any], name: str, what: str) -> Any:
    """Return the result of a call of an environment's code; an error becomes one line: 'Environment cannot `what`'."""
    try:
        return call()
    except EnvError as error:
        raise ConfigError(str(error)) from error
    except UserError:  # it already says what is wrong
        raise
    except Exception as error:
        hint = f" {OLD_INTERFACE}." if any(sign in str(error) for sign in OLD_SIGNS) else ""
        cause = " ".join(str(error).split())
        raise ConfigError(
            f"Environment '{name}' cannot {what}: {place_of(error)}{type(error).__name__}: {cause}{hint}"
        ) from error


def draw_action(env: gymnasium.Env, obs: Any) -> Any:
    """Return a random action of the environment, one that the mask in its observation allows."""
    if isinstance(obs, dict) and "action_mask" in obs:
        drawn = sample_masked(np.asarray(obs["action_mask"])[None], env.action_space.np_random)
        return ActionUnits(env.action_space).to_env(drawn)[0]
    return env.action_space.sample()
