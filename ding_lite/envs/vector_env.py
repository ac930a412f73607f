"""Vector environments: from `cfg.env` to `N` environments that step together.

What `create_vector_env` returns keeps one contract, whoever steps the environments (`N` environments, `K` of them
ended in this step):

* autoreset is SAME_STEP: each step is a real transition; where an episode ended, `obs` is the next episode's first one.
* `obs [N, ...]` (or a dict of these) may be overwritten by the next `step` or `reset`: copy what has to live longer.
* `reward [N]` float32; `terminated`, `truncated` `[N]` bool: true ends of episodes only, never a lost life.
* `info["episode_return"] [N]` float64, `info["episode_length"] [N]` int64: totals up to and including this step, of
  the unclipped rewards; where an episode ended, the totals of that episode.
* `info["final_obs"] [K, ...]`: the last observations of the ended episodes in the order of their environments, the
  caller's to keep; absent if none ended.
* `info["life_lost"] [N]` bool: only in training with `episodic_life`; a life was lost, and the game goes on.
* actions are `[N, ...]` arrays, or a dict of these, of `action_space`: floats mean what `act_scale` says.
* Anything else that the environments put into `info` is passed on as gymnasium batches it.

This module never imports torch: worker processes import it.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from ding_lite.envs.subprocess_env import SubprocessVectorEnv
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest

ENV_DEFAULTS: dict[str, Any] = dict(
    type="gymnasium",  # (str) registered environment; 'gymnasium' makes any id of gymnasium's, with no code
    import_names=[],  # (list) modules to import first: those that register `type` or `env_id`
    env_id=None,  # (str) gymnasium id, such as 'CartPole-v1', or the game of a registered environment
    collector_env_num=8,  # (int) environments that collect, per process
    evaluator_env_num=8,  # (int) environments that evaluate, on rank 0
    n_evaluator_episode=8,  # (int) episodes in one evaluation; a multiple of evaluator_env_num
    stop_value=None,  # (float) training ends when the mean evaluation return reaches this; None: never
    frame_stack=0,  # (int) newest frames in one observation, zeros before an episode's first; 0: no stack
    clip_rewards=False,  # (bool) train on the sign of the reward; recorded returns stay true
    episodic_life=False,  # (bool) training only: a lost life is `done` for the learner, and the game goes on
    act_scale=True,  # (bool) actions -1..1 are a Box's low..high; False: the Box's own units. Both are clipped to it
    max_episode_steps=None,  # (int) episodes are truncated after so many env steps; None: the environment's own limit
    kwargs={},  # (dict) further arguments of gymnasium.make
    manager=dict(
        type="base",  # (str) 'base': this process, one by one; 'subprocess': one process each; 'native': own engine
        num_threads=0,  # (int) threads of a native engine; 0: the cores divided by the processes on this machine
        step_timeout=60.0,  # (float) seconds until a subprocess that does not answer ends the run
    ),
)
Builder = Callable[[EasyDict], gymnasium.Env]
MANAGERS = ("base", "subprocess", "native")


@dataclass(frozen=True)
class EnvSpec:
    """What a model must know of one environment (before batching)."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space  # the policy's side, see `BoxActions`
    frame_stack: int  # frames in one observation; 0 if observations are not a rolling stack


def derive_seeds(seed: int, *path: int | str, n: int) -> list[int]:
    """Return `n` seeds below 2**31 that depend on nothing but `seed` and `path`.

    Different paths, such as `(rank, "collect")` and `(rank, "evaluate", 3)`, give independent seeds; a larger `n`
    continues the same list.
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(n)
    return [int(word >> 1) for word in words]


def check_env(cfg_env: EasyDict, builders: Sequence[Builder] | None = None) -> EnvSpec:
    """Check the environment part of a compiled config and return the environment's spaces; no worker is started.

    At most one environment is built, in this process, and closed again. `builders`: see `create_vector_env`.

    Raises:
        ConfigError: unknown type, id or manager; an environment that cannot be built, or that reports no lives where
            `episodic_life` needs them.
    """
    builder = _find_builder(cfg_env, builders)
    if hasattr(builder, "check"):
        spec = builder.check(cfg_env)
        return replace(spec, action_space=_policy_side(spec.action_space, cfg_env.act_scale)[0])
    env = _build_single(builder, cfg_env)
    has_lives = not cfg_env.episodic_life or "lives" in env.reset(seed=0)[1]
    env.close()
    if not has_lives:
        raise ConfigError(
            "env.episodic_life is True, but the environment reports no info['lives']: set it to False, or report them."
        )
    action_space = _policy_side(env.action_space, cfg_env.act_scale)[0]
    return EnvSpec(env.observation_space, action_space, _stack_depth(cfg_env))


def create_vector_env(
    cfg_env: EasyDict,
    num_envs: int,
    seed: int,
    training: bool,
    local_world_size: int = 1,
    builders: Sequence[Builder] | None = None,
) -> EpisodeMonitor:
    """Build `num_envs` environments that keep the contract of this module.

    A registered environment is a `gymnasium.Env` class that takes `cfg.env` as its only argument. It may declare
    `config` (further defaults of `cfg.env`), `stacks_frames = True` (it obeys `frame_stack` itself), and two class
    methods: `check(cfg) -> EnvSpec` (spaces without building one) and `make_native(cfg, num_envs, num_threads)`,
    which returns a SAME_STEP `VectorEnv` that obeys `frame_stack` and `max_episode_steps` itself.

    Args:
        cfg_env: the compiled `cfg.env`.
        num_envs: environments in this process.
        seed: of the first `reset()`, if that names none; each environment gets its own, derived from it.
        training: whether `clip_rewards` and `episodic_life` apply.
        local_world_size: processes that share this machine's cores.
        builders: make the environments, one each, from `cfg.env`, instead of what `cfg.env.type` names.

    Raises:
        ConfigError: see `check_env`.
    """
    builder, manager = _find_builder(cfg_env, builders), cfg_env.manager
    builds = [partial(_build_single, one, cfg_env) for one in builders or [builder] * num_envs]
    if len(builds) != num_envs:
        raise ConfigError(
            f"{num_envs} environments are configured, but {len(builds)} functions that build one are given."
        )
    env: VectorEnv
    if manager.type == "native":
        num_threads = manager.num_threads or max(1, _cpu_count() // local_world_size)
        env = builder.make_native(cfg_env, num_envs, min(num_threads, num_envs))
    elif manager.type == "subprocess":
        env = SubprocessVectorEnv(builds, step_timeout=manager.step_timeout)
    else:
        env = SyncVectorEnv(builds, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    monitor = EpisodeMonitor(
        env,
        seed,
        frame_stack=_stack_depth(cfg_env),
        clip_rewards=training and cfg_env.clip_rewards,
        episodic_life=training and cfg_env.episodic_life,
        act_scale=cfg_env.act_scale,
    )
    monitor.action_space.seed(derive_seeds(seed, "action", n=1)[0])
    return monitor


class BoxActions:
    """Actions of a Box of floats, from the policy's side to the environment's.

    With `act_scale`, -1..1 is low..high in every dimension that is bounded on both sides. Whatever is beyond a bound is
    clipped to it; an unbounded dimension passes unchanged.

    Attributes:
        space: the policy's side.
    """

    def __init__(self, box: Box, act_scale: bool) -> None:
        self._box = box
        scaled = box.bounded_below & box.bounded_above & act_scale
        low, high = np.where(scaled, box.low, -1.0), np.where(scaled, box.high, 1.0)
        self._centre, self._half = low / 2 + high / 2, high / 2 - low / 2  # 0 and 1 where nothing is scaled
        one = box.dtype.type(1)
        self.space: Box = Box(np.where(scaled, -one, box.low), np.where(scaled, one, box.high), dtype=box.dtype.type)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """Return the environment's actions for the policy's, `[N, ...]`, of the Box's type."""
        return np.clip(action * self._half + self._centre, self._box.low, self._box.high).astype(self._box.dtype)


def _policy_side(space: gymnasium.Space, act_scale: bool) -> tuple[gymnasium.Space, Callable[[Any], Any]]:
    """Return the action space that a policy sees, and what turns its batched actions into the environment's."""
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        actions = BoxActions(space, act_scale)
        return actions.space, actions
    if isinstance(space, Dict) and set(space) == {"action_type", "action_args"}:
        args_space, to_args = _policy_side(space["action_args"], act_scale)
        hybrid = Dict({"action_type": space["action_type"], "action_args": args_space})
        return hybrid, lambda action: {**action, "action_args": to_args(action["action_args"])}
    return space, lambda action: action


class EpisodeMonitor(VectorWrapper):
    """Adds true episode totals, final observations, lost lives and scaled actions to a SAME_STEP vector environment."""

    def __init__(
        self,
        env: VectorEnv,
        seed: int,
        *,
        frame_stack: int = 0,
        clip_rewards: bool = False,
        episodic_life: bool = False,
        act_scale: bool = True,
    ) -> None:
        super().__init__(env)
        self.single_action_space, self._to_env = _policy_side(env.single_action_space, act_scale)
        if self.single_action_space is not env.single_action_space:
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.frame_stack = frame_stack
        self._seed: int | None = seed
        self._clip_rewards = clip_rewards
        self._episodic_life = episodic_life
        self._return_N = np.zeros(env.num_envs, np.float64)
        self._length_N = np.zeros(env.num_envs, np.int64)
        self._lives_N = np.zeros(env.num_envs, np.int64)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode in every environment.

        Args:
            seed: one seed per environment, or one that theirs are derived from. None: the constructor's at the first
                reset, later ones go on with the environments' own random states.
            options: passed to the environments; `reset_mask` is refused, since the totals are those of all.
        """
        if options and "reset_mask" in options:
            raise ValueError("options['reset_mask'] is not supported: ended episodes restart by themselves.")
        seed = self._seed if seed is None else seed
        self._seed = None
        if isinstance(seed, int | np.integer):
            seed = derive_seeds(int(seed), n=self.num_envs)
        obs, info = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]  # a list is gymnasium's own use
        self._return_N[:] = 0
        self._length_N[:] = 0
        if self._episodic_life:
            self._lives_N = info["lives"].copy()
        return obs, info

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step in every environment; see the module's contract."""
        obs, reward_N, terminated_N, truncated_N, raw_info = self.env.step(self._to_env(actions))
        info = {key: value for key, value in raw_info.items() if key not in ("final_obs", "_final_obs")}
        self._return_N += reward_N
        self._length_N += 1
        info["episode_return"], info["episode_length"] = self._return_N.copy(), self._length_N.copy()
        ended_N = terminated_N | truncated_N
        if ended_N.any():
            info["final_obs"] = self._gather(raw_info["final_obs"], np.flatnonzero(ended_N))
            self._return_N[ended_N] = 0
            self._length_N[ended_N] = 0
        if self._episodic_life:
            # where the game ended, lives already count for the next game
            info["life_lost"] = (info["lives"] < self._lives_N) & ~ended_N
            self._lives_N = info["lives"].copy()
        reward_N = np.sign(reward_N) if self._clip_rewards else reward_N
        return obs, reward_N.astype(np.float32), terminated_N, truncated_N, info

    def _gather(self, final_obs: np.ndarray, index_K: np.ndarray) -> Any:
        """Return the observations of the environments `index_K` as one batch of our own."""
        if final_obs.dtype != object:
            return final_obs[index_K]
        space = self.single_observation_space
        rows = [final_obs[i] for i in index_K]
        return concatenate(space, rows, create_empty_array(space, n=len(rows), fn=np.empty))  # type: ignore[arg-type]


def _find_builder(cfg_env: EasyDict, builders: Sequence[Builder] | None) -> Any:
    """Return what makes one environment: the caller's builder, gymnasium with an id, or a registered class."""
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
    """Make the environment that `cfg.env` names; a gymnasium spec, unlike an id, is known in worker processes too.

    Raises:
        ConfigError: gymnasium does not know the id, or cannot make it with `env.kwargs`.
    """
    spec = spec or _find_id(cfg_env.env_id)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that an id has a successor is the user's choice
            return gymnasium.make(
                spec, max_episode_steps=cfg_env.max_episode_steps, disable_env_checker=True, **cfg_env.kwargs
            )
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigError(
            f"env.env_id '{spec.id}' cannot be made with env.kwargs {dict(cfg_env.kwargs)}: {error}"
        ) from error


def _build_single(builder: Any, cfg_env: EasyDict) -> gymnasium.Env:
    env = builder(cfg_env)
    if cfg_env.max_episode_steps:
        env = gymnasium.wrappers.TimeLimit(env, cfg_env.max_episode_steps)
    if _stack_depth(cfg_env) and not getattr(builder, "stacks_frames", False):
        env = gymnasium.wrappers.FrameStackObservation(env, cfg_env.frame_stack, padding_type="zero")
    return env


def _stack_depth(cfg_env: EasyDict) -> int:
    return cfg_env.frame_stack if cfg_env.frame_stack > 1 else 0


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
