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

Shapes: N environments, K of which start an episode, S frames in an observation.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ding_lite.envs.checks import check_lives
from ding_lite.envs.spaces import EnvSpec, begin_stack, observation_side, push_frame, stack_depth, stack_space
from ding_lite.utils.registry import ConfigError, closest, load_extra
from ding_lite.utils.seed import derive_seeds
from ding_lite.utils.tree import tree_leaves, tree_map

ENDLESS = np.iinfo(np.int32).max  # a time limit that no episode reaches; envpool's of tasks that have none
OWN_LIMIT = ("MiniGrid-", "BabyAI-")  # tasks whose rewards depend on the time limit
RESERVED = ("num_envs", "num_threads", "batch_size", "seed", "env_seed")  # options that other keys of the config set
BOOKKEEPING = ("env_id", "players")  # keys of envpool's `info`


def _envpool() -> Any:
    return load_extra("envpool", "envpool", "env_manager.type='env_pool'")


@dataclass(frozen=True)
class EnvPoolBuilder:
    """Builds envpool's vector environment of a task, in place of a registered class; see `vector_env`."""

    task: str  # envpool's name of the environment, mostly gymnasium's id
    options: Mapping[str, Any] = field(default_factory=dict)  # arguments of `envpool.make`; `env.kwargs` overrides them

    def make_native(self, cfg_env: EasyDict, num_envs: int, num_threads: int) -> EnvPoolEngine:
        """Build the engine, which has to be reset with seeds first."""
        known = _envpool().list_all_envs()
        if self.task not in known:
            raise ConfigError(f"env.env_id: envpool knows no '{self.task}'.{closest(self.task, known)}")
        if reserved := sorted(set(RESERVED) & set(cfg_env.kwargs)):
            raise ConfigError(f"env.kwargs: {reserved} are not options of an environment: set the config's own keys.")
        options = {**self.options, **cfg_env.kwargs, "num_envs": num_envs, "num_threads": num_threads}
        frames = (stack_depth(cfg_env), cfg_env.image_layout)
        return EnvPoolEngine(self.task, options, cfg_env.max_episode_steps, *frames)

    def check(self, cfg_env: EasyDict) -> EnvSpec:
        """Return the spaces of an engine with one environment, which is reset once."""
        with closing(self.make_native(cfg_env, 1, 1)) as engine:
            _, info = engine.reset(seed=[0])
        check_lives(cfg_env, info)
        notes = (engine.note,) if engine.note else ()
        return EnvSpec(engine.single_observation_space, engine.single_action_space, stack_depth(cfg_env), notes)


class EnvPoolEngine(VectorEnv):
    """envpool in the mode SAME_STEP. Observations are converted and stacked for all environments at once.

    `task` and `options` are arguments of `envpool.make`, `options` with `num_envs`; the others are keys of `env`, and
    `limit` is `max_episode_steps`. `note` is a message for the user about the conversion of observations, or empty.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    restarts_some = True  # some environments can be reset while others go on

    def __init__(
        self, task: str, options: dict[str, Any], limit: int | None = None, frame_stack: int = 0, image_layout: str = ""
    ) -> None:
        self._task = task
        self._pool: Any = None
        spec, *spaces = self._call("make_spec", options)
        self._limit = spec.config.max_episode_steps if limit is None else limit or ENDLESS
        longer = min(self._limit + 1, ENDLESS)
        self._options = options if task.startswith(OWN_LIMIT) else {**options, "max_episode_steps": longer}
        if spec.config.max_num_players > 1:
            raise ConfigError(f"env.env_id '{task}' has several players in envpool: expected one.")
        self.num_envs, self._stack = options["num_envs"], frame_stack
        space, self._convert, self.note = observation_side(_usual(spaces[0]), image_layout)
        if frame_stack:
            space = stack_space(space, frame_stack)
        self.single_observation_space, self.single_action_space = space, _usual(spaces[1])
        self.observation_space = batch_space(space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**self.metadata, "max_episode_steps": self._limit if self._limit < ENDLESS else None}
        self._obs: Any = None  # the newest observations `[N, ...]`; never written into
        self._info: dict[str, Any] = {}

    def _call(self, function: str, options: dict[str, Any]) -> tuple[Any, ...]:
        """Return what a function of envpool makes, its observation space and its action space."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # bounds of spaces lose precision
                made = getattr(_envpool(), function)(self._task, **options)
                return made, made.observation_space, made.action_space
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            own = {key: value for key, value in options.items() if key not in ("num_envs", "num_threads", "seed")}
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"env.env_id '{self._task}' cannot be made by envpool with {own}: {reason}") from error

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode in every environment, or only where `options["reset_mask"]`, bool `[N]`, is True."""
        others = dict(options or {})
        index_K = np.flatnonzero(others.pop("reset_mask", np.full(self.num_envs, True)))
        if others:
            raise ValueError(f"envpool's reset has no options {sorted(others)}: expected 'reset_mask' only.")
        if seed is not None or self._pool is None:
            if len(index_K) < self.num_envs:
                raise ValueError("envpool cannot set the seeds of some environments only: reset all of them.")
            self._pool = None  # ends its threads before others start
            seeds = derive_seeds(0, n=self.num_envs) if seed is None else [int(one) for one in seed]
            self._pool, *_ = self._call("make_gymnasium", {**self._options, "seed": seeds})
        self._begin(index_K)
        return self._obs, self._info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take a step in every environment; where an episode ended, start the next one."""
        raw, reward_N, terminated_N, truncated_N, info = self._pool.step(actions)
        truncated_N = truncated_N | (info["elapsed_step"] >= self._limit)
        frames, info = self._read(raw, info)
        self._obs, self._info = push_frame(self._obs, frames, 1) if self._stack else frames, info
        last: dict[str, Any] = {}
        if (ended_N := terminated_N | truncated_N).any():
            index_K = np.flatnonzero(ended_N)
            last = {"final_obs": _final(self._obs, index_K), "final_info": info}
            self._begin(index_K)
        return self._obs, reward_N, terminated_N, truncated_N, self._info | last

    def _begin(self, index_K: np.ndarray) -> None:
        """Restart environments, and put what they return into the rows of `_obs` and `_info`."""
        raw, info = self._pool.reset(index_K.astype(np.int32))
        obs, info = self._read(raw, info)
        if self._stack:
            obs = begin_stack(obs, self._stack, 1)
        if len(index_K) < self.num_envs:
            info = {key: value for key, value in info.items() if key in self._info}
            obs, info = _put(self._obs, index_K, obs), self._info | _put(self._info, index_K, info)
        self._obs, self._info = obs, info

    def _read(self, raw: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return converted observations, with floats of 32 bits, and `info` without envpool's own keys."""
        single = tree_map(lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, raw)
        return self._convert(single), {key: value for key, value in info.items() if key not in BOOKKEEPING}

    def close_extras(self, **kwargs: Any) -> None:
        self._pool = None


def _final(obs: Any, index_K: np.ndarray) -> np.ndarray:
    """Return observations as gymnasium has them in `final_obs`: an array of dicts if they are dicts."""
    if not isinstance(obs, dict):
        return obs
    rows = np.full(len(next(tree_leaves(obs))), None, object)
    for n in index_K.tolist():
        rows[n] = tree_map(lambda leaf, n=n: leaf[n], obs)
    return rows


def _put(whole: Any, index_K: np.ndarray, rows: Any) -> Any:
    """Return a copy of the arrays `[N, ...]` with the rows `[K, ...]` at `index_K`; `rows` names the keys."""
    copies = tree_map(lambda _, old: old.copy(), rows, whole)
    tree_map(lambda new, copy: copy.__setitem__(index_K, new), rows, copies)
    return copies


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
