"""Builds a single environment from `cfg.env`: finds its class, creates it, and wraps it for a policy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
from easydict import EasyDict

from ding_lite.envs.checks import find_id, given_id
from ding_lite.envs.env_pool import EnvPoolBuilder
from ding_lite.envs.seeded_env import SeededEnv
from ding_lite.envs.spaces import FrameStack, PolicyObservations, stack_depth
from ding_lite.envs.wrappers import ENGINES, apply_wrappers
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, place_of

Builder = Callable[[EasyDict], gymnasium.Env]
# Our extras, by the module of the environments in gymnasium that need them.
EXTRAS = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco"}
MANAGERS = ("base", "subprocess", *ENGINES)


def find_builder(cfg_env: EasyDict, builders: Sequence[Builder] | None) -> Any:
    """Return the callable that builds one environment from the compiled `cfg.env`.

    It is the first of the caller's `builders`, else the registered class `cfg.env.type`, or makes the gymnasium id.
    """
    manager = cfg_env.manager.type
    if manager not in MANAGERS:
        raise ConfigError(
            f"env.manager.type is '{manager}', expected one of {MANAGERS}.{closest(str(manager), MANAGERS)}"
        )
    for key, default in (("reset_options", {}), ("dynamic_seed", True)):
        if manager in ENGINES and cfg_env[key] != default:
            raise ConfigError(
                f"env.{key}: the engine of env_manager.type '{manager}' only takes the default, {default}: set it to "
                "'base' or 'subprocess'."
            )
    if builders:
        builder: Any = builders[0]
    elif cfg_env.type == "gymnasium" and manager == "env_pool":
        return EnvPoolBuilder(given_id(cfg_env.env_id))
    elif cfg_env.type == "gymnasium":
        builder = partial(make_gymnasium, spec=find_id(cfg_env.env_id))
    else:
        builder = ENV_REGISTRY.find(cfg_env.type)
    if manager == "env_pool" and hasattr(builder, "env_pool_task"):
        return builder.env_pool_task(cfg_env)
    if manager not in ("native", "env_pool") or (manager == "native" and hasattr(builder, "make_native")):
        return builder
    lack = "engine of their own" if manager == "native" else "equivalent in envpool (env.type 'gymnasium' may have one)"
    raise ConfigError(
        f"env.manager.type is '{manager}', but '{cfg_env.type}' environments have no {lack}: set it to 'base' or "
        "'subprocess'."
    )


def make_gymnasium(cfg_env: EasyDict, spec: Any = None) -> gymnasium.Env:
    """Build the gymnasium environment that `cfg.env.env_id` of a compiled config names.

    Without its gymnasium `spec`, that is looked up. Worker processes that do not import the module that registers the
    id need it.

    Raises:
        ConfigError: gymnasium does not know the id, or cannot make it with `env.kwargs`.
    """
    spec = spec or find_id(cfg_env.env_id)
    limit = -1 if cfg_env.max_episode_steps == 0 else cfg_env.max_episode_steps
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # gymnasium warns about ids that have a newer version
            return gymnasium.make(spec, max_episode_steps=limit, disable_env_checker=True, **cfg_env.kwargs)
    except Exception as error:  # the environment's code may raise anything
        extra = EXTRAS.get(".".join(str(spec.entry_point).split(".")[:3]))
        if extra and isinstance(error, gymnasium.error.DependencyNotInstalled):
            missing = str(error).partition(",")[0]  # leaves out gymnasium's hint: its extra for Box2D needs a compiler
            raise ConfigError(
                f"env.env_id '{spec.id}' needs the extra '{extra}' ({missing}): pip install 'ding_lite[{extra}]'."
            ) from error
        own = not isinstance(error, (gymnasium.error.Error, ImportError, TypeError))  # env.kwargs cause a TypeError
        reason = (place_of(error) if own else "") + (str(error) or type(error).__name__)
        raise ConfigError(
            f"env.env_id '{spec.id}' cannot be made with env.kwargs {dict(cfg_env.kwargs)}: {reason}"
        ) from error


def build_single(builder: Any, cfg_env: EasyDict, index: int = 0) -> gymnasium.Env:
    """Build an environment and wrap it: `env.wrappers`, time limit, `SeededEnv`, observations for a policy, frames."""
    return wrap_single(build_plain(builder, cfg_env), builder, cfg_env, index)


def build_plain(builder: Any, cfg_env: EasyDict) -> gymnasium.Env:
    """Build an environment with the wrappers of `env.wrappers`, but without those of `wrap_single`."""
    env = builder(cfg_env)
    return apply_wrappers(env, cfg_env.wrappers) if cfg_env.wrappers else env


def image_layout(builder: Any, cfg_env: EasyDict) -> str:
    """Return the layout of an environment's images; frames that it has stacked itself are channels."""
    stacked = stack_depth(cfg_env) and getattr(builder, "stacks_frames", False)
    return "channels_first" if stacked else cfg_env.image_layout


def wrap_single(env: gymnasium.Env, builder: Any, cfg_env: EasyDict, index: int = 0) -> gymnasium.Env:
    """Wrap an environment that `build_plain` has built, see `build_single`."""
    if cfg_env.max_episode_steps:
        env = gymnasium.wrappers.TimeLimit(env, cfg_env.max_episode_steps)
    env = SeededEnv(env, index, cfg_env.env_id or cfg_env.type, cfg_env.reset_options, cfg_env.dynamic_seed)
    env.metadata = {"max_episode_steps": getattr(env.spec, "max_episode_steps", None), **env.metadata}
    env = PolicyObservations.wrap(env, image_layout(builder, cfg_env))
    if stack_depth(cfg_env) and not getattr(builder, "stacks_frames", False):
        env = FrameStack(env, cfg_env.frame_stack)
    return env
