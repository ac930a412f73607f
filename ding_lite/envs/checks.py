"""Tries an environment before a run starts, and reports a fault in one line with the environment and the cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id
from gymnasium.vector import AutoresetMode, VectorEnv

from ding_lite.envs.actions import ActionUnits, sample_masked
from ding_lite.envs.masks import WRAPPER, find_mask_space, mask_side
from ding_lite.envs.returned import OLD_INTERFACE, EnvError
from ding_lite.envs.seeded_env import SeededEnv
from ding_lite.envs.spaces import EnvSpec
from ding_lite.utils.key import show
from ding_lite.utils.registry import ConfigError, UserError, place_of
from ding_lite.utils.tree import MASK, tree_leaves

NUM_ENVS = 2  # of a native engine that is tried
TRIAL_STEPS = 100  # env steps that are played to see an episode end
NUMBERS, BOOLS = ("fiu", "numbers"), ("b", "bools")  # kinds of arrays, and their names
OLD_SIGNS = ("values to unpack", "unexpected keyword argument 'seed'", "unexpected keyword argument 'options'")


def given_id(env_id: str | None) -> str:
    """Return `env.env_id`, or raise `ConfigError` if it is not set."""
    if not env_id:
        raise ConfigError("env.env_id is not set: expected a gymnasium id such as 'CartPole-v1'.")
    return env_id


def find_id(env_id: str | None) -> Any:
    """Return gymnasium's spec of `env.env_id`, or raise `ConfigError` if there is none."""
    env_id = given_id(env_id)
    try:
        namespace, name, version = parse_env_id(env_id)
        if version is None and env_id not in gymnasium.registry:  # the newest version, as `gymnasium.make` takes it
            version = find_highest_version(namespace, name)
        return gymnasium.spec(get_env_id(namespace, name, version))
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise ConfigError(
            f"env.env_id '{env_id}': {error} An environment of your own: import the module that registers it, or name "
            f"it, 'module:{env_id}'."
        ) from error


def build_checked(
    build: Callable[[], gymnasium.Env], name: str, options: dict[str, Any] | None = None
) -> tuple[gymnasium.Env, dict[str, Any]]:
    """Build an environment, reset it and take one step; return it, still open, and the `info` of its reset."""
    env = attempt(build, name, "be built")
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"Environment '{name}' is a {type(env).__name__}: expected a gymnasium.Env. {OLD_INTERFACE}.")
    try:
        for key in ("observation_space", "action_space"):
            space = getattr(env, key, None)
            if not isinstance(space, gymnasium.Space) or 0 in (space.shape or ()):
                raise ConfigError(
                    f"Environment '{name}': {key} is {space!r}, expected a space of gymnasium.spaces with at least one "
                    f"number: set self.{key} in its __init__."
                )
        played = SeededEnv(env, 0, name, options)
        obs, info = attempt(lambda: played.reset(seed=0), name, "be reset")
        env.action_space.seed(0)
        attempt(lambda: played.step(draw_action(env, obs)), name, "take a step")
    except BaseException:
        env.close()
        raise
    return env, info


def check_lives(cfg_env: EasyDict, info: dict[str, Any]) -> None:
    """Raise `ConfigError` if `episodic_life` is set and the `info` of a reset has no lives."""
    if cfg_env.episodic_life and "lives" not in info:
        raise ConfigError(
            "env.episodic_life is True, but the environment has no info['lives']: set the key to False, or add them."
        )


def note_mask(env: gymnasium.Env, info: dict[str, Any]) -> str:
    """Return a message if the environment gives a mask that its observations lack; else an empty text."""
    if find_mask_space(env.observation_space) is not None:
        return ""
    given = "action_masks()" if env.has_wrapper_attr("action_masks") else f"info['{MASK}']" if MASK in info else ""
    return given and f"the environment's {given} is not obeyed: env.wrappers=['{WRAPPER}'] makes it obeyed."


def attempt(call: Callable[[], Any], name: str, what: str) -> Any:
    """Return the result of a call of an environment's code; an error becomes one line: 'Environment cannot `what`'."""
    try:
        return call()
    except EnvError as error:
        raise ConfigError(str(error)) from error
    except UserError:  # its message already says what is wrong
        raise
    except Exception as error:
        hint = f". {OLD_INTERFACE}." if any(sign in str(error) for sign in OLD_SIGNS) else ""
        cause = " ".join(str(error).split())
        raise ConfigError(
            f"Environment '{name}' cannot {what}: {place_of(error)}{type(error).__name__}: {cause}{hint}"
        ) from error


def draw_action(env: gymnasium.Env, obs: Any) -> Any:
    """Return a random action of the environment, one that the mask in its observation allows."""
    if (mask := find_mask_space(env.observation_space)) is not None:
        _, convert = mask_side(mask, env.action_space)
        drawn = sample_masked(convert(np.asarray(obs[MASK])[None]), env.action_space.np_random)
        return ActionUnits(env.action_space).to_env(drawn)[0]
    return env.action_space.sample()


def check_native(builder: Any, cfg_env: EasyDict, spec: EnvSpec) -> None:
    """Build an engine of two environments and play it until an episode ends, for at most `TRIAL_STEPS`."""
    name = cfg_env.env_id or cfg_env.type
    env = attempt(lambda: builder.make_native(cfg_env, NUM_ENVS, 1), name, "be built by make_native")
    if not isinstance(env, VectorEnv):
        raise _violation(name, f"it returned a {type(env).__name__}, expected a gymnasium.vector.VectorEnv")
    with closing(env):
        for what, found, expected in (
            ("num_envs", env.num_envs, NUM_ENVS),
            ("metadata['autoreset_mode']", env.metadata.get("autoreset_mode"), AutoresetMode.SAME_STEP),
            ("single_observation_space", env.single_observation_space, spec.observation_space),
            ("single_action_space", env.single_action_space, spec.env_action_space),
        ):
            if found != expected:
                raise _violation(name, f"its {what} is {found}, expected {expected}")
        obs = _reset(env, name, seed=[1, 2])
        if getattr(env, "counts_episodes", False):
            masked = {"episode": np.array([0, 0]), "reset_mask": np.array([True, True])}
            again = _reset(env, name, seed=[1, 2], options=masked)
            if any((one != other).any() for one, other in zip(tree_leaves(obs), tree_leaves(again), strict=True)):
                raise _violation(name, "counts_episodes is True, but episode 0 of the same seeds begins differently")
        _play(env, name, cfg_env.max_episode_steps)


def _reset(env: VectorEnv, name: str, **options: Any) -> Any:
    result = attempt(lambda: env.reset(**options), name, f"be reset with {', '.join(options)} by its engine")
    return _check_result(env, name, result, "reset", ("obs", "info"))[0]


def _play(env: VectorEnv, name: str, limit: int | None) -> None:
    env.action_space.seed(0)
    steps = min(TRIAL_STEPS, limit or TRIAL_STEPS)
    for _ in range(steps):
        result = attempt(lambda: env.step(env.action_space.sample()), name, "take a step of its engine")
        parts = ("obs", "reward", "terminated", "truncated", "info")
        _, *arrays, info = _check_result(env, name, result, "step", parts)
        for what, array, (kinds, kind) in zip(parts[1:4], arrays, (NUMBERS, BOOLS, BOOLS), strict=True):
            if not isinstance(array, np.ndarray) or array.shape != (NUM_ENVS,) or array.dtype.kind not in kinds:
                got = f"step returned {what} {show(array)}"
                raise _violation(name, f"{got}, expected a NumPy array of {NUM_ENVS} {kind}")
        if np.any(arrays[1:]):
            final_obs = info.get("final_obs")
            if not isinstance(final_obs, np.ndarray) or len(final_obs) != NUM_ENVS:
                what = "must be a NumPy array of N observations where an episode has ended"
                raise _violation(name, f"info['final_obs'] {what}, got {show(final_obs)}")
            return
    if steps == limit:
        raise _violation(name, f"no episode has ended after {limit} steps: truncate at env.max_episode_steps")


def _check_result(env: VectorEnv, name: str, result: Any, method: str, parts: Sequence[str]) -> tuple[Any, ...]:
    """Return what a method of an engine returned: observations of all environments first, a dict last."""
    if not (isinstance(result, tuple) and len(result) == len(parts) and isinstance(result[-1], dict)):
        raise _violation(name, f"{method} must return ({', '.join(parts)})")
    obs = result[0]
    wrong = [type(leaf).__name__ for leaf in tree_leaves(obs) if not isinstance(leaf, np.ndarray)]
    if wrong:
        raise _violation(name, f"its observations are of type {wrong[0]}, expected NumPy arrays")
    expected = [np.shape(leaf) for leaf in tree_leaves(env.observation_space.sample())]
    found = [np.shape(leaf) for leaf in tree_leaves(obs)]
    if found != expected:
        raise _violation(name, f"its observations have the shapes {found}, expected {expected}")
    return result


def _violation(name: str, what: str) -> ConfigError:
    return ConfigError(f"Environment '{name}', make_native: {what}. docs/environments.md has the contract.")
