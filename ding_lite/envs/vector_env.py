"""Vector environments: from `cfg.env` to `N` environments that step together.

The result of `create_vector_env` obeys one contract, for every engine (`N` environments, `K` of which ended in this
step):

* autoreset is SAME_STEP: each step is a real transition; where an episode ended, `obs` is the next episode's first one.
* `obs [N, ...]` (or a dict of these) may be overwritten by the next `step` or `reset`: copy what has to live longer.
* `reward [N]` float32; `terminated`, `truncated` `[N]` bool: true ends of episodes only, never a lost life.
* `info["episode_return"] [N]` float64, `info["episode_length"] [N]` int64: totals up to and including this step, of
  the unclipped rewards; where an episode ended, the totals of that episode.
* `info["final_obs"] [K, ...]`: the last observations of the ended episodes in the order of their environments, the
  a copy; absent if none ended.
* `info["life_lost"] [N]` bool: only in training with `episodic_life`; a life was lost, and the game continues.
* actions are `[N, ...]` arrays, or a dict of these, of `action_space`: numbers from 0, and floats in the units
  that `act_scale` selects, see `spaces`.
* every episode has its own seed, see `seeded_env`. In training, `state_dict` and `load_state_dict` save and restore the
  running episodes, see `restorable`.
* if an environment fails and its engine survives this, its episode is truncated with reward 0; `final_obs` is its last
  observation.
* Anything else that the environments put into `info` is passed on as gymnasium batches it.

This module never imports torch: worker processes import it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
from easydict import EasyDict
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ding_lite.envs.builders import Builder, build_single, find_builder, stack_depth, wrap_single
from ding_lite.envs.checks import build_checked
from ding_lite.envs.episode_monitor import EpisodeMonitor
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.envs.seeded_env import derive_seeds
from ding_lite.envs.spaces import PolicyObservations, policy_side
from ding_lite.envs.subprocess_env import SubprocessVectorEnv
from ding_lite.utils.key import Key, default_values
from ding_lite.utils.registry import ConfigError

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


@dataclass(frozen=True)
class EnvSpec:
    """The properties of one environment, not batched, on which a model depends."""

    observation_space: gymnasium.Space[Any]  # of the policy, see `PolicyObservations`
    action_space: gymnasium.Space[Any]  # of the policy, see `policy_side`
    frame_stack: int  # frames in one observation; 0 if observations are not a rolling stack
    notes: tuple[str, ...] = ()  # messages about the conversion for the user


def check_env(cfg_env: EasyDict, builders: Sequence[Builder] | None = None) -> EnvSpec:
    """Check the environment part of a compiled config and return the environment's spaces; no worker is started.

    At most one environment is built, in this process. It takes one step and is closed.

    Args:
        cfg_env: the compiled `cfg.env`.
        builders: see `create_vector_env`.

    Raises:
        ConfigError: unknown type, id or manager; an environment that cannot be built or played, whose observations are
            not supported, or that reports no lives where `episodic_life` needs them.
    """
    builder = find_builder(cfg_env, builders)
    if hasattr(builder, "check"):
        spec = builder.check(cfg_env)
        return replace(spec, action_space=policy_side(spec.action_space, cfg_env.act_scale)[0])
    env, info = build_checked(lambda: builder(cfg_env), cfg_env.env_id or cfg_env.type)
    try:
        note = PolicyObservations(env).note
        observation_space = wrap_single(env, builder, cfg_env).observation_space
    finally:
        env.close()
    if cfg_env.episodic_life and "lives" not in info:
        raise ConfigError(
            "env.episodic_life is True, but the environment reports no info['lives']: set it to False, or report them."
        )
    action_space = policy_side(env.action_space, cfg_env.act_scale)[0]
    return EnvSpec(observation_space, action_space, stack_depth(cfg_env), (note,) if note else ())


def create_vector_env(
    cfg_env: EasyDict,
    num_envs: int,
    seed: int,
    training: bool,
    local_world_size: int = 1,
    builders: Sequence[Builder] | None = None,
) -> EpisodeMonitor | RestorableVectorEnv:
    """Build `num_envs` environments that obey the contract of this module.

    A registered environment is a `gymnasium.Env` class that takes `cfg.env` as its only argument. It may declare
    `config` (further defaults of `cfg.env`), `stacks_frames = True` (it handles `frame_stack` itself), and two class
    methods: `check(cfg) -> EnvSpec` (spaces without building one) and `make_native(cfg, num_envs, num_threads)`,
    which returns a SAME_STEP `VectorEnv` that obeys `frame_stack` and `max_episode_steps` itself. If that says
    `counts_episodes = True`, its `reset` takes seeds and options as `SeededEnv.reset` does (and gymnasium's
    `reset_mask`), and its ended games restart so; otherwise its episodes start over when a run is resumed.

    Args:
        cfg_env: the compiled `cfg.env`.
        num_envs: environments in this process.
        seed: for a first `reset()` without seed; each environment's seed is derived from it.
        training: whether `clip_rewards` and `episodic_life` apply, and a state can be saved and loaded.
        local_world_size: processes that share this machine's cores.
        builders: create one environment each from `cfg.env`, instead of the class that `cfg.env.type` names.

    Raises:
        ConfigError: see `check_env`.
    """
    builder, manager = find_builder(cfg_env, builders), cfg_env.manager
    builds = [partial(build_single, one, cfg_env, n) for n, one in enumerate(builders or [builder] * num_envs)]
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
        frame_stack=stack_depth(cfg_env),
        clip_rewards=training and cfg_env.clip_rewards,
        episodic_life=training and cfg_env.episodic_life,
        act_scale=cfg_env.act_scale,
    )
    monitor.action_space.seed(derive_seeds(seed, "action", n=1)[0])
    return RestorableVectorEnv(monitor, seed, counts_episodes) if training else monitor


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
