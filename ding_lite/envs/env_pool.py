"""Plays environments with envpool: C++ on several threads, from the extra `envpool`.

envpool resets an ended environment in the next step, and ignores that step's action. Here the ended environments, and
only these, are reset immediately, so that every step is a transition of every environment.

Differences from gymnasium, which hold for envpool 1.2.5:

* An episode that terminates in the last step of its time limit is reported as truncated only. Therefore the limit is
  counted here, and envpool's is one step longer. In MiniGrid and BabyAI, whose rewards depend on that limit, it is left
  alone, and a goal that is reached in the very last step is a truncation.
* Seeds are fixed when a pool is built: a reset with seeds builds a new one. This takes milliseconds, and for Atari a
  tenth of a second for each game. An episode depends on the ones before, so none is restored when a run is resumed.
* Observations and actions of float64 appear as float32, and Box2D's unbounded spaces as unbounded.

This module never imports torch.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict

from ding_lite.envs.same_step import ENDLESS, EngineBuilder, SameStepEngine
from ding_lite.envs.seeded_env import derive_seeds
from ding_lite.envs.spaces import stack_depth
from ding_lite.utils.registry import ConfigError, closest
from ding_lite.utils.tree import tree_map

OWN_LIMIT = ("MiniGrid-", "BabyAI-")  # tasks whose rewards depend on the time limit
RESERVED = ("num_envs", "num_threads", "batch_size", "seed", "env_seed")  # options that other keys of the config set
BOOKKEEPING = ("env_id", "players")  # keys of envpool's `info`


def import_envpool() -> ModuleType:
    """Import envpool and return it.

    Raises:
        ConfigError: it is not installed, or incomplete.
    """
    try:
        return importlib.import_module("envpool")
    except (ImportError, FileNotFoundError) as error:  # a missing file: the assets are separate packages
        raise ConfigError(
            f"env_manager.type='env_pool' needs the extra 'envpool' ({error}): pip install 'ding_lite[envpool]'."
        ) from error


@dataclass(frozen=True)
class EnvPoolBuilder(EngineBuilder):
    """Builds envpool's vector environment of a task.

    Attributes:
        task: envpool's name of the environment, mostly gymnasium's id.
        options: arguments of `envpool.make`; `env.kwargs` overrides them.
    """

    task: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def make_native(self, cfg_env: EasyDict, num_envs: int, num_threads: int) -> EnvPoolEngine:
        """Build the engine, which has to be reset with seeds first.

        Raises:
            ConfigError: envpool is not installed, or does not know the task or one of the options.
        """
        known = import_envpool().list_all_envs()
        if self.task not in known:
            raise ConfigError(f"env.env_id: envpool knows no '{self.task}'.{closest(self.task, known)}")
        if reserved := sorted(set(RESERVED) & set(cfg_env.kwargs)):
            raise ConfigError(f"env.kwargs: {reserved} are not options of an environment: set the config's own keys.")
        options = {**self.options, **cfg_env.kwargs, "num_envs": num_envs, "num_threads": num_threads}
        frames = (stack_depth(cfg_env), cfg_env.image_layout)
        return EnvPoolEngine(self.task, options, cfg_env.max_episode_steps, *frames)


class EnvPoolEngine(SameStepEngine):
    """envpool in the mode SAME_STEP.

    Args:
        task: envpool's name of the environment.
        options: arguments of `envpool.make`, with `num_envs`.
        limit: env steps after which an episode is truncated; 0: never; None: envpool's own limit.
        frame_stack: see `SameStepEngine`.
        image_layout: see `SameStepEngine`.

    Raises:
        ConfigError: envpool does not accept the options, or the environment has several players.
    """

    def __init__(
        self,
        task: str,
        options: dict[str, Any],
        limit: int | None = None,
        frame_stack: int = 0,
        image_layout: str = "",
    ) -> None:
        self._task = task
        self._pool: Any = None
        spec, *spaces = self._call("make_spec", options)
        self._limit = spec.config.max_episode_steps if limit is None else limit or ENDLESS
        longer = min(self._limit + 1, ENDLESS)
        self._options = options if task.startswith(OWN_LIMIT) else {**options, "max_episode_steps": longer}
        if spec.config.max_num_players > 1:
            raise ConfigError(f"env.env_id '{task}' has several players in envpool: expected one.")
        frames = (frame_stack, image_layout)
        super().__init__(options["num_envs"], _usual(spaces[0]), _usual(spaces[1]), *frames)
        self.metadata = {**self.metadata, "max_episode_steps": self._limit if self._limit < ENDLESS else None}

    def _call(self, function: str, options: dict[str, Any]) -> tuple[Any, ...]:
        """Call a function of envpool with the task and these options.

        Returns:
            What it made, its observation space and its action space.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # bounds of spaces lose precision
                made = getattr(import_envpool(), function)(self._task, **options)
                return made, made.observation_space, made.action_space
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            own = {key: value for key, value in options.items() if key not in ("num_envs", "num_threads", "seed")}
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"env.env_id '{self._task}' cannot be made by envpool with {own}: {reason}") from error

    def _set_seeds(self, index_K: np.ndarray, seed_N: list[int] | None, options: dict[str, Any]) -> None:
        if options:
            raise ValueError(f"envpool's reset has no options {sorted(options)}: expected 'reset_mask' only.")
        if seed_N is None and self._pool is not None:
            return
        if len(index_K) < self.num_envs:
            raise ValueError("envpool cannot set the seeds of some environments only: reset all of them.")
        self._pool = None  # ends its threads before others start
        seeds = derive_seeds(0, n=self.num_envs) if seed_N is None else [int(seed) for seed in seed_N]
        self._pool, *_ = self._call("make_gymnasium", {**self._options, "seed": seeds})

    def _restart(self, index_K: np.ndarray) -> tuple[Any, dict[str, Any]]:
        obs, info = self._pool.reset(index_K.astype(np.int32))
        return _single_precision(obs), _without_bookkeeping(info)

    def _advance(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        obs, reward_N, terminated_N, truncated_N, info = self._pool.step(actions)
        truncated_N = truncated_N | (info["elapsed_step"] >= self._limit)
        return _single_precision(obs), reward_N, terminated_N, truncated_N, _without_bookkeeping(info)

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self._pool = None


def _usual(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    """Return a space with floats of 32 bits; bounds at the limits of their type become infinite."""
    if isinstance(space, Dict):
        return Dict({key: _usual(part) for key, part in space.items()})
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        return space
    limits = np.finfo(space.dtype)
    low = np.where(np.isin(space.low, (limits.tiny, limits.min)), -np.inf, space.low)  # envpool takes tiny for lowest
    high = np.where(space.high == limits.max, np.inf, space.high)
    return Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def _single_precision(obs: Any) -> Any:
    return tree_map(lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, obs)


def _without_bookkeeping(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in BOOKKEEPING}
