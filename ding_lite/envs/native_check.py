"""Checks at the start of a run that the engine of a user's own class obeys the contract of `make_native`.

Shapes: N environments, here two. This module never imports torch.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from easydict import EasyDict
from gymnasium.vector import AutoresetMode, VectorEnv

from ding_lite.envs.checks import attempt
from ding_lite.envs.spaces import EnvSpec
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves

NUM_ENVS = 2
TRIAL_STEPS = 100  # env steps that are played to see an episode end


def check_native(builder: Any, cfg_env: EasyDict, spec: EnvSpec) -> None:
    """Build an engine of two environments and play it until an episode ends, for at most `TRIAL_STEPS`.

    Args:
        builder: the class that has `make_native`.
        cfg_env: the compiled `cfg.env`.
        spec: the spaces of the class's single environment.

    Raises:
        ConfigError: the engine violates the contract that `vector_env` describes.
    """
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
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise _violation(name, "reset must return (obs, info)")
    _check_rows(env, name, result[0])
    return result[0]


def _play(env: VectorEnv, name: str, limit: int | None) -> None:
    env.action_space.seed(0)
    steps = min(TRIAL_STEPS, limit or TRIAL_STEPS)
    for _ in range(steps):
        result = attempt(lambda: env.step(env.action_space.sample()), name, "take a step of its engine")
        if not (isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], dict)):
            raise _violation(name, "step must return (obs, reward, terminated, truncated, info)")
        obs, reward_N, terminated_N, truncated_N, info = result
        _check_rows(env, name, obs)
        for what, array, kinds in (
            ("reward", reward_N, "fiu"),
            ("terminated", terminated_N, "b"),
            ("truncated", truncated_N, "b"),
        ):
            if np.shape(array) != (NUM_ENVS,) or np.asarray(array).dtype.kind not in kinds:
                expected = "numbers" if kinds != "b" else "bools"
                raise _violation(name, f"step returned {what} {array!r}, expected an array of {NUM_ENVS} {expected}")
        if (terminated_N | truncated_N).any():
            if len(info.get("final_obs", ())) != NUM_ENVS:
                raise _violation(name, "info['final_obs'] must hold N observations where an episode has ended")
            return
    if steps == limit:
        raise _violation(name, f"no episode has ended after {limit} steps: truncate at env.max_episode_steps")


def _check_rows(env: VectorEnv, name: str, obs: Any) -> None:
    """Check the shapes of a batch of observations."""
    expected = [np.shape(leaf) for leaf in tree_leaves(env.observation_space.sample())]
    found = [np.shape(leaf) for leaf in tree_leaves(obs)]
    if found != expected:
        raise _violation(name, f"its observations have the shapes {found}, expected {expected}")


def _violation(name: str, what: str) -> ConfigError:
    return ConfigError(f"Environment '{name}', make_native: {what}. docs/environments.md has the contract.")
