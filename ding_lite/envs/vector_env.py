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
* `info["abnormal"] [N]` bool: present only in a step in which environments failed. They are truncated with reward 0,
  what they showed last is in `final_obs`, their totals are not those of a finished episode, `obs` is their next one's.
* `info["life_lost"] [N]` bool: only in training with `episodic_life`; a life was lost, and the game goes on.
* actions are `[N, ...]` arrays, or a dict of these, of `action_space`: floats mean what `act_scale` says.
* every episode has its own seed, see `seeded_env`: `state_dict` holds the actions of those that are running, and
  `load_state_dict` plays them again.
* Anything else that the environments put into `info` is passed on as gymnasium batches it.

This module never imports torch: worker processes import it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
from easydict import EasyDict
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs.episode_monitor import EpisodeMonitor, policy_side
from ding_lite.envs.seeded_env import SeededEnv, derive_seeds
from ding_lite.envs.subprocess_env import SubprocessVectorEnv
from ding_lite.utils.key import Key, default_values
from ding_lite.utils.registry import ENV_REGISTRY, ConfigError, closest, place_of

ENV_KEYS: dict[str, Any] = dict(
    type=Key("gymnasium", "registered environment; 'gymnasium' makes any id of gymnasium's, with no code"),
    import_names=Key([], "modules to import first: those that register `type` or `env_id`"),
    env_id=Key(None, "gymnasium id, such as 'CartPole-v1', or the game of a registered environment", type=str),
    collector_env_num=Key(8, "environments that collect, per process", low=1, high=4096),
    evaluator_env_num=Key(8, "environments that evaluate, on rank 0", low=1, high=4096),
    n_evaluator_episode=Key(8, "episodes in one evaluation; a multiple of evaluator_env_num", low=1),
    stop_value=Key(None, "training ends when the mean evaluation return reaches this; None: never", type=float),
    frame_stack=Key(
        0, "newest frames in one observation, zeros before an episode's first; 0: no stack", low=0, high=4096
    ),
    clip_rewards=Key(False, "train on the sign of the reward; recorded returns stay true"),
    episodic_life=Key(False, "training only: a lost life is `done` for the learner, and the game goes on"),
    act_scale=Key(True, "actions -1..1 are a Box's low..high; False: the Box's own units. Both are clipped to it"),
    max_episode_steps=Key(
        None, "episodes are truncated after so many env steps; None: the environment's own limit", type=int, low=1
    ),
    kwargs=Key({}, "further arguments of gymnasium.make"),
    manager=dict(
        type=Key("base", "'base': this process, one by one; 'subprocess': one process each; 'native': own engine"),
        num_threads=Key(
            0, "threads of a native engine; 0: the cores divided by the processes on this machine", low=0, high=4096
        ),
        step_timeout=Key(60.0, "seconds until a subprocess that does not answer is replaced", low=0.001, high=10**6),
        max_retry=Key(3, "failures in a row until a subprocess environment ends the run; 0: the first one does", low=0),
    ),
)
ENV_DEFAULTS: dict[str, Any] = default_values(ENV_KEYS)  # plain values
Builder = Callable[[EasyDict], gymnasium.Env]
MANAGERS = ("base", "subprocess", "native")


@dataclass(frozen=True)
class EnvSpec:
    """What a model must know of one environment (before batching)."""

    observation_space: gymnasium.Space
    action_space: gymnasium.Space  # the policy's side, see `BoxActions`
    frame_stack: int  # frames in one observation; 0 if observations are not a rolling stack


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
        return replace(spec, action_space=policy_side(spec.action_space, cfg_env.act_scale)[0])
    env = _build_single(builder, cfg_env)
    has_lives = not cfg_env.episodic_life or "lives" in env.reset(seed=0)[1]
    env.close()
    if not has_lives:
        raise ConfigError(
            "env.episodic_life is True, but the environment reports no info['lives']: set it to False, or report them."
        )
    action_space = policy_side(env.action_space, cfg_env.act_scale)[0]
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
    which returns a SAME_STEP `VectorEnv` that obeys `frame_stack` and `max_episode_steps` itself. If that says
    `counts_episodes = True`, its `reset` takes seeds and options as `SeededEnv.reset` does (and gymnasium's
    `reset_mask`), and its ended games restart so; otherwise its episodes start over when a run is resumed.

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
    builds = [partial(_build_single, one, cfg_env, n) for n, one in enumerate(builders or [builder] * num_envs)]
    if len(builds) != num_envs:
        raise ConfigError(
            f"{num_envs} environments are configured, but {len(builds)} functions that build one are given."
        )
    env: VectorEnv
    counts_episodes = True
    if manager.type == "native":
        num_threads = manager.num_threads or max(1, _cpu_count() // local_world_size)
        env = builder.make_native(cfg_env, num_envs, min(num_threads, num_envs))
        counts_episodes = getattr(env, "counts_episodes", False)
    elif manager.type == "subprocess":
        env = SubprocessVectorEnv(builds, manager.step_timeout, manager.max_retry)
    else:
        env = SyncVectorEnv(builds, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    monitor = EpisodeMonitor(
        env,
        seed,
        frame_stack=_stack_depth(cfg_env),
        clip_rewards=training and cfg_env.clip_rewards,
        episodic_life=training and cfg_env.episodic_life,
        act_scale=cfg_env.act_scale,
        counts_episodes=counts_episodes,
        journal=training,
    )
    monitor.action_space.seed(derive_seeds(seed, "action", n=1)[0])
    return monitor


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
    except Exception as error:  # of a library that is missing, or of the environment's own
        own = not isinstance(error, (gymnasium.error.Error, ImportError, TypeError))  # a TypeError: of env.kwargs
        reason = (place_of(error) if own else "") + (str(error) or type(error).__name__)
        raise ConfigError(
            f"env.env_id '{spec.id}' cannot be made with env.kwargs {dict(cfg_env.kwargs)}: {reason}"
        ) from error


def _build_single(builder: Any, cfg_env: EasyDict, index: int = 0) -> gymnasium.Env:
    env = builder(cfg_env)
    if cfg_env.max_episode_steps:
        env = gymnasium.wrappers.TimeLimit(env, cfg_env.max_episode_steps)
    if _stack_depth(cfg_env) and not getattr(builder, "stacks_frames", False):
        env = gymnasium.wrappers.FrameStackObservation(env, cfg_env.frame_stack, padding_type="zero")
    return SeededEnv(env, index)


def _stack_depth(cfg_env: EasyDict) -> int:
    return cfg_env.frame_stack if cfg_env.frame_stack > 1 else 0


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
