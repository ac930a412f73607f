"""From `cfg.env` to one environment: finding its class, building it, and wrapping it for a policy.

Never imports torch: worker processes import this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict

from ding_lite.envs.seeded_env import SeededEnv
from ding_lite.envs.spaces import PolicyObservations
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, place_of
from ding_lite.utils.tree import tree_map

Builder = Callable[[EasyDict], gymnasium.Env]
MANAGERS = ("base", "subprocess", "native")


def find_builder(cfg_env: EasyDict, builders: Sequence[Builder] | None) -> Any:
    """Return what builds one environment: the caller's builder, gymnasium with an id, or a registered class.

    Raises:
        ConfigError: unknown type, id or manager, or the native manager for environments without their own engine.
    """
    manager = cfg_env.manager.type
    if manager not in MANAGERS:
        raise ConfigError(
            f"env.manager.type is '{manager}', expected one of {MANAGERS}.{closest(str(manager), MANAGERS)}"
        )
    builder: Any
    if builders:
        builder = builders[0]
    elif cfg_env.type == "gymnasium":
        builder = partial(make_gymnasium, spec=_find_id(cfg_env.env_id))
    else:
        builder = ENV_REGISTRY.find(cfg_env.type)
    if manager == "native" and not hasattr(builder, "make_native"):
        raise ConfigError(
            f"env.manager.type is 'native', but '{cfg_env.type}' environments have no engine of their own: "
            "use 'base' or 'subprocess'."
        )
    return builder


def _find_id(env_id: str | None) -> Any:
    if not env_id:
        raise ConfigError("env.env_id is not set: expected a gymnasium id such as 'CartPole-v1'.")
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        hint = closest(env_id, gymnasium.registry) or " Does env.import_names name the module that registers it?"
        raise ConfigError(f"env.env_id: gymnasium knows no '{env_id}'.{hint}") from error


def make_gymnasium(cfg_env: EasyDict, spec: Any = None) -> gymnasium.Env:
    """Build the environment that `cfg.env` names. Unlike an id, a gymnasium spec is also known in worker processes.

    Raises:
        ConfigError: gymnasium does not know the id, or cannot make it with `env.kwargs`.
    """
    spec = spec or _find_id(cfg_env.env_id)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # gymnasium warns of ids with a successor
            return gymnasium.make(
                spec, max_episode_steps=cfg_env.max_episode_steps, disable_env_checker=True, **cfg_env.kwargs
            )
    except Exception as error:  # of a library that is missing, or of the environment's own
        own = not isinstance(error, (gymnasium.error.Error, ImportError, TypeError))  # a TypeError: of env.kwargs
        reason = (place_of(error) if own else "") + (str(error) or type(error).__name__)
        raise ConfigError(
            f"env.env_id '{spec.id}' cannot be made with env.kwargs {dict(cfg_env.kwargs)}: {reason}"
        ) from error


def build_single(builder: Any, cfg_env: EasyDict, index: int = 0) -> gymnasium.Env:
    """Make an environment and wrap it: time limit, observations for a policy, frame stack, seeds of episodes.

    Args:
        builder: makes the environment from `cfg_env`.
        cfg_env: the compiled `cfg.env`.
        index: its place in the vector environment.
    """
    return wrap_single(builder(cfg_env), builder, cfg_env, index)


def wrap_single(env: gymnasium.Env, builder: Any, cfg_env: EasyDict, index: int = 0) -> SeededEnv:
    """Wrap an environment that `builder` made, see `build_single`."""
    if cfg_env.max_episode_steps:
        env = gymnasium.wrappers.TimeLimit(env, cfg_env.max_episode_steps)
    env = PolicyObservations.wrap(env)
    if stack_depth(cfg_env) and not getattr(builder, "stacks_frames", False):
        # the stack keeps observations, and an environment may write all of them into the same memory
        env = gymnasium.wrappers.TransformObservation(env, lambda obs: tree_map(np.array, obs), None)
        env = gymnasium.wrappers.FrameStackObservation(env, cfg_env.frame_stack, padding_type="zero")
    return SeededEnv(env, index)


def stack_depth(cfg_env: EasyDict) -> int:
    """Return the number of frames in one observation, 0 if it is not a stack."""
    return cfg_env.frame_stack if cfg_env.frame_stack > 1 else 0
