"""Builds vector environments from `cfg.env`: N environments that step together.

The result of `create_vector_env` obeys the same contract for every engine. N is the number of environments, and K is
the number of those whose episode ended in a step:

* Autoreset is SAME_STEP: each step is a real transition. Where an episode ended, `obs` is the first observation of the
  next one.
* `obs [N, ...]`, or a dict of such arrays, may be overwritten by the next `step` or `reset`. Copy it to keep it longer.
* `reward [N]` is float32. `terminated [N]` and `truncated [N]` are bool; a lost life or a point is neither.
* `info[TRUE_REWARD] [N]` is the reward before `clip_rewards` and below the wrappers of `env.wrappers`, see `wrappers`.
* `info["episode_return"] [N]` float64 and `info["episode_length"] [N]` int64 are the sum of these rewards and the
  number of steps of the running episode, this step included; where an episode ended, of that episode.
* `info["final_obs"] [K, ...]` is a copy of the last observations of the ended episodes, in the order of their
  environments. It is absent if none ended.
* `info["episode_info"] [K, I]` float64 holds the values of I `env.info_keys` in the last `info` of the ended episodes,
  NaN where it has no such key. It is absent if none ended.
* `info["part_ended"] [N]` bool exists only in training with `episodic_life` or `episodic_reward`: a life was lost, or a
  reward received, and the game continues.
* Actions are `[N, ...]` arrays of `action_space`, or a dict of these: integers from 0, or floats in the units that
  `act_scale` selects, see `actions`.
* Every episode has its own seed, see `seeded_env`. In training, `state_dict` and `load_state_dict` save and restore the
  running episodes, see `restorable`.
* What environments return is checked against their spaces in every step, see `returned`. A value that does not fit, or
  a number that is not finite, ends the run with an `EnvError`.
* If an environment fails and the engine survives, the episode is truncated with reward 0, and `final_obs` is its last
  observation.
* Everything else that the environments put into `info` is passed on as gymnasium batches it, except that values of
  different types or shapes become an array of objects. Keys with the names above are replaced by ours.

A registered environment is a `gymnasium.Env` class whose only argument is `cfg.env`. The class may have:

* `config`: further defaults of `cfg.env`.
* `stacks_frames = True`, if it handles `frame_stack` itself.
* a class method `check(cfg) -> EnvSpec`, which returns the spaces without building an environment.
* a class method `make_native(cfg, num_envs, num_threads)`, which returns a `VectorEnv` that obeys the contract in
  docs/environments.md, which `check_native` tries.
* a class method `env_pool_task(cfg)`, if envpool has an equivalent environment, see `env_pool`.
* an attribute `summary_note` of its objects, a message for the summary of a run after their first reset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from easydict import EasyDict
from gymnasium import Env
from gymnasium.vector import AutoresetMode, VectorEnv

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.builders import Builder, build_plain, build_single, find_builder, image_layout, wrap_single
from ding_lite.envs.checks import build_checked, check_lives, check_native, note_mask
from ding_lite.envs.episode_monitor import EpisodeMonitor
from ding_lite.envs.restorable import RestorableVectorEnv
from ding_lite.envs.seeded_env import SameProcessVectorEnv
from ding_lite.envs.spaces import EnvSpec, PolicyObservations, stack_depth
from ding_lite.envs.wrappers import ENGINES, find_own_randomness
from ding_lite.utils.key import ConfigDict
from ding_lite.utils.ranks.launch_environment import usable_cores
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.seed import derive_seeds


def check_env(cfg_env: EasyDict, builders: Sequence[Builder] | None = None) -> EnvSpec:
    """Return the spaces of the environment of `cfg.env`, which takes one step in this process to check the config.

    Args:
        cfg_env: the compiled `cfg.env`.
        builders: see `create_vector_env`.

    Raises:
        ConfigError: the type, the id or the manager is unknown; or the environment cannot be built or played, has
            observations that are not supported, or reports no lives although `episodic_life` needs them.
    """
    builder = find_builder(cfg_env, builders)
    if cfg_env.replay_path:
        from ding_lite.trained.rendering import check_recording  # noqa: PLC0415

        check_recording(cfg_env, builders)
    if cfg_env.manager.type == "batched":
        from ding_lite.envs.batched import check_batched  # noqa: PLC0415

        return check_batched(builder, cfg_env)
    if hasattr(builder, "check") and not cfg_env.wrappers:
        spec = builder.check(cfg_env)
        side = ActionUnits(spec.action_space, cfg_env.act_scale).space
        return replace(spec, action_space=side, env_action_space=spec.action_space)
    options = dict(cfg_env.reset_options) or None
    env, info = build_checked(lambda: build_plain(builder, cfg_env), cfg_env.env_id or cfg_env.type, options)
    try:
        note = PolicyObservations(env, image_layout(builder, cfg_env)).note
        own = getattr(env.unwrapped, "summary_note", "")
        notes = [note, find_own_randomness(env) if cfg_env.wrappers else "", note_mask(env, info), own]
        observation_space = wrap_single(env, builder, cfg_env).observation_space
    finally:
        env.close()
    check_lives(cfg_env, info)
    action_space, stack = ActionUnits(env.action_space, cfg_env.act_scale).space, stack_depth(cfg_env)
    plain = None if stack else env.observation_space
    spec = EnvSpec(observation_space, action_space, stack, tuple(filter(None, notes)), env.action_space, plain)
    if cfg_env.manager.type == "native":
        check_native(builder, cfg_env, spec)
    return spec


def create_vector_env(
    cfg_env: EasyDict,
    num_envs: int,
    seed: int,
    training: bool,
    local_world_size: int = 1,
    builders: Sequence[Builder] | None = None,
    replay_path: str | None = None,
    bounded: bool = False,
    device: Any = "cpu",
) -> EpisodeMonitor:
    """Build `num_envs` environments that obey the contract of this module.

    Args:
        cfg_env: the compiled `cfg.env`.
        num_envs: N, environments of this process.
        seed: seed for a first `reset()` without a seed; each environment's seed is derived from it.
        training: whether `clip_rewards`, `episodic_life`, `episodic_reward` and `collector_max_episode_steps` apply,
            and whether the state can be saved and restored.
        local_world_size: number of processes that share this machine's cores.
        builders: functions that each build one environment from `cfg.env`, instead of the class `cfg.env.type`.
        replay_path: directory for videos of the first environment's episodes; None: none are recorded.
        bounded: whether training episodes must end, see `EpisodeMonitor`; those of evaluations always do.
        device: of the tensors of a simulator, with `env_manager.type='batched'`; here, they become arrays of NumPy.

    Raises:
        ConfigError: see `check_env`.
    """
    # of training episodes, one for all environments or a list; empty: those of evaluations apply
    limit = cfg_env.collector_max_episode_steps if training else None
    limits = limit if isinstance(limit, list) else [] if limit is None else [limit]
    if not training:
        cfg_env = ConfigDict({**cfg_env, "dynamic_seed": True})
    elif limits:
        cfg_env = ConfigDict({**cfg_env, "max_episode_steps": 0 if 0 in limits else max(limits)})
    builder, manager = find_builder(cfg_env, builders), cfg_env.manager
    builds = [partial(build_single, one, cfg_env, n) for n, one in enumerate(builders or [builder] * num_envs)]
    if len(builds) != num_envs:
        raise ConfigError(f"Expected {num_envs} functions that build an environment, as configured, got {len(builds)}.")
    if replay_path:
        from ding_lite.trained.rendering import build_recorded  # noqa: PLC0415

        builds[0] = partial(build_recorded, cfg_env, builders or [builder], replay_path, 0)
    env = _create_engine(builder, builds, cfg_env, seed, local_world_size, device)
    if cfg_env.max_episode_steps is not None:
        env.metadata = {**env.metadata, "max_episode_steps": cfg_env.max_episode_steps}
    counts_episodes = getattr(env, "counts_episodes", manager.type not in ENGINES)
    restarts = getattr(env, "restarts_some", counts_episodes)
    if len(limits) > 1 and not restarts:
        raise ConfigError(
            f"env.collector_max_episode_steps={limits}: {type(env).__name__} cannot restart some of its environments. "
            "Give one number, or set env_manager.type to 'base' or 'subprocess'."
        )
    create = partial(RestorableVectorEnv, counts_episodes=counts_episodes) if training else EpisodeMonitor
    monitor = create(
        env,
        seed,
        restarts=restarts,
        frame_stack=stack_depth(cfg_env),
        info_keys=tuple(cfg_env.info_keys),
        clip_rewards=training and cfg_env.clip_rewards,
        episodic_life=training and cfg_env.episodic_life,
        episodic_reward=training and cfg_env.episodic_reward,
        act_scale=cfg_env.act_scale,
        limits=limits if len(limits) > 1 else (),
        bounded=bounded or not training,
        name=cfg_env.env_id or cfg_env.type,
    )
    monitor.action_space.seed(derive_seeds(seed, "action", n=1)[0])
    return monitor


def _create_engine(
    builder: Any, builds: Sequence[Callable[[], Env]], cfg_env: EasyDict, seed: int, local_world_size: int, device: Any
) -> VectorEnv:
    """Build the vector environment that `env.manager.type` names, of environments that `builds` build one by one."""
    manager, num_envs = cfg_env.manager, len(builds)
    if manager.type == "batched":
        from ding_lite.envs.batched import HostVectorEnv, create_batched  # noqa: PLC0415

        return HostVectorEnv(create_batched(builder, cfg_env, num_envs, device))
    if manager.type in ENGINES:
        num_threads = manager.num_threads or max(1, usable_cores() // local_world_size)
        engine: VectorEnv = builder.make_native(cfg_env, num_envs, min(num_threads, num_envs))
        return engine
    if manager.type == "subprocess":
        from ding_lite.envs.subprocess_env import SubprocessVectorEnv  # noqa: PLC0415

        return SubprocessVectorEnv(builds, manager.step_timeout, manager.max_retry, seed)
    return SameProcessVectorEnv(builds, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
