"""Checks for contradictions between config values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from easydict import EasyDict

from ding_lite.config import schema as sc
from ding_lite.envs.wrappers import check_wrappers
from ding_lite.utils.key import (
    SCHEDULE_FIELDS,
    Key,
    get_key,
    matches,
    set_key,
    show,
    show_value,
    why_constant,
)
from ding_lite.utils.passwords import check_no_passwords
from ding_lite.utils.registry import BUFFER_REGISTRY, TRACKER_REGISTRY, ConfigError, closest, wrapped
from ding_lite.utils.schedule import Schedule, Scheduled, find_schedules

ROUNDED = (  # counts that are rounded up, each to a multiple of the second key
    ("policy.collect.n_sample", "env.collector_env_num"),
    ("policy.collect.n_episode", "env.collector_env_num"),
    ("env.n_evaluator_episode", "env.evaluator_env_num"),
    ("env.n_confirm_episode", "env.evaluator_env_num"),
)
# Keys of `policy` that select the training loop in DI-engine; each is True for policies that learn from this.
LOOP_KEYS = {"on_policy": "collect", "offline": "dataset"}
UNITS = {"env_step": "env steps", "iteration": "learner iterations", "collect": "collects"}  # by the field `by`
# Numbers that decide in losses: with 0, these compute something else.
DECISIONS = ("learn.kappa", "learn.kl_beta", "learn.noise_range.")


def round_counts(cfg: EasyDict, policy_cls: Any, notes: list[str]) -> None:
    """Round counts of samples and episodes up to multiples of the environments that play them together, in place.

    A batch that is larger than an on-policy collect is reduced to the collect. With `policy.divide`, the replay buffer
    is reduced to equally many rows of each environment. `notes` says what has changed.
    """
    for path, divisor in ROUNDED:
        value, number = get_key(cfg, path), get_key(cfg, divisor)
        if path == "policy.collect.n_sample":
            number //= math.gcd(number, cfg.policy.get("unroll_len", 1))  # one sample has unroll_len env steps
        if value is not None and value % number:
            near = -(-value // number) * number
            set_key(cfg, path, near)
            notes.append(f"{path}={value} is {near} here: {get_key(cfg, divisor)} environments step together.")
    size, num_envs = get_key(cfg, f"{sc.BUFFER}.replay_buffer_size"), cfg.env.collector_env_num
    if cfg.policy.get("divide") and size is not None and size % num_envs:
        cfg.policy.other.replay_buffer.replay_buffer_size -= size % num_envs
        notes.append(f"{sc.BUFFER}.replay_buffer_size={size} is {size - size % num_envs} here: {num_envs} equal parts.")
    n_sample, batch_size = get_key(cfg, "policy.collect.n_sample"), cfg.policy.learn.batch_size
    if policy_cls.learns_from == "collect" and n_sample is not None and batch_size > n_sample:
        cfg.policy.learn.batch_size = n_sample
        notes.append(f"policy.learn.batch_size={batch_size} is {n_sample} here: a collect has no more samples.")


def check_values(cfg: EasyDict, policy_cls: Any) -> None:
    """Check a compiled config for values that contradict each other or cannot be used."""
    if not cfg.exp_name.strip() or "\0" in cfg.exp_name:
        raise ConfigError(f"exp_name: expected the name of a directory, got {show(cfg.exp_name)}.")
    if cfg.tracker.type is not None:
        TRACKER_REGISTRY.find(cfg.tracker.type)
    check_no_passwords(cfg.tracker, "tracker")
    for key, value in cfg.policy.get("model", {}).items():
        if key.endswith("_size_list") and value == []:
            raise ConfigError(f"policy.model.{key}: expected at least one layer's size, got [].")
    _check_pairs(cfg)
    if cfg.env.wrappers:
        check_wrappers(cfg.env)
    if cfg.env.norm_obs.use_norm or cfg.env.norm_reward.use_norm:
        check_normalization(cfg, policy_cls)


def _check_pairs(cfg: EasyDict) -> None:
    n_sample, n_episode = (get_key(cfg, f"policy.collect.{key}") for key in ("n_sample", "n_episode"))
    if n_sample is not None and n_episode is not None:
        raise ConfigError(f"Expected policy.collect.n_sample or n_episode, got {n_sample} and {n_episode}: set one.")
    size, buffer_type = (get_key(cfg, f"{sc.BUFFER}.{key}") for key in ("replay_buffer_size", "type"))
    if size is not None and (n_sample or 0) > size:
        raise ConfigError(
            f"policy.collect.n_sample={n_sample} exceeds {sc.BUFFER}.replay_buffer_size={size}: enlarge the buffer."
        )
    priority = bool(cfg.policy.get("priority"))
    if buffer_type == ("uniform" if priority else "prioritized"):
        raise ConfigError(f"{sc.BUFFER}.type='{buffer_type}' contradicts policy.priority={priority}: set one of them.")
    if size is not None:
        _check_capacity(cfg, size)
    if buffer_type is not None and hasattr(buffer_cls := BUFFER_REGISTRY.find(buffer_type), "check_config"):
        buffer_cls.check_config(cfg)


def _check_capacity(cfg: EasyDict, size: int) -> None:
    """Check that a full buffer of this size offers a batch. Its oldest and newest rows start no sample."""
    num_envs, batch_size, stack = cfg.env.collector_env_num, cfg.policy.learn.batch_size, cfg.env.frame_stack
    if "unroll_len" in cfg.policy:
        unit = cfg.policy.unroll_len  # env steps that one unit of the size stands for
        lost, why = unit - 1, f"policy.unroll_len={unit}"
        burnin, rows = cfg.policy.get("burnin_step", 0), size * unit // num_envs
        if burnin > rows:
            raise ConfigError(
                f"policy.burnin_step={burnin} exceeds the {rows} env steps that the buffer holds of each environment: "
                f"{sc.BUFFER}.replay_buffer_size={size} sequences of unroll_len={unit} in all."
            )
    else:
        unit, nstep = 1, cfg.policy.get("nstep", 1)
        lost, why = nstep + max(stack, 1) - 1, f"policy.nstep={nstep} and env.frame_stack={stack}"
    samples = max(size * unit // num_envs - lost, 0) * num_envs
    if samples < batch_size:
        rows = math.ceil(batch_size / num_envs) + lost
        raise ConfigError(
            f"{sc.BUFFER}.replay_buffer_size={size} offers at most {samples} samples, with {why} and {num_envs} "
            f"environments, fewer than policy.learn.batch_size={batch_size}: nothing would be learned. "
            f"Set at least {math.ceil(rows * num_envs / unit)}."
        )


def check_policy(cfg: EasyDict, policy_cls: Any) -> None:
    """Check schedules, and the policy's values against each other and the rest of the config.

    The policy's own check sees the config with the first, and then with the last, number of every schedule. These
    numbers are `Scheduled`, so that it can see where there is a schedule. It may set values that depend on others.
    """
    policy_cls = wrapped(policy_cls, cfg.policy)
    for name, source in LOOP_KEYS.items():
        right = policy_cls.learns_from == source
        if cfg.policy.get(name, right) != right:
            raise ConfigError(
                f"The class of policy '{cfg.policy.type}' declares {name}={not right}, but learns from "
                f"{policy_cls.learns_from}: set its attribute `learns_from`, such as learns_from = '{source}'."
            )
    schedules = find_schedules(cfg.policy, policy_cls)
    _check_schedules(cfg.policy, policy_cls, schedules)
    given = {path: get_key(cfg.policy, path) for path in schedules}
    for place in (0, -1) if schedules else (0,):
        for path, schedule in schedules.items():
            number = float(schedule.numbers[place])
            set_key(cfg.policy, path, Scheduled(number, partial(float, number)))
        policy_cls.check_config(cfg)
    for path, value in given.items():
        set_key(cfg.policy, path, value)


def _check_schedules(policy: EasyDict, policy_cls: Any, schedules: Mapping[str, Schedule]) -> None:
    for path, schedule in schedules.items():
        if policy_cls.learns_from == "dataset" and schedule.by != "iteration":
            raise ConfigError(
                f"policy.{path}.by: expected 'iteration', got '{schedule.by}', because policy '{policy.type}' "
                "learns from a data set and collects nothing."
            )
        if policy_cls.learns_from == "dataset" and path == "discount_factor":
            raise ConfigError(
                f"policy.{path} is a schedule, but policy '{policy.type}' learns from a data set, whose rewards are "
                "summed once, when it is read: give a number."
            )
        if path == "learn.momentum" and min(schedule.numbers) <= 0:
            raise ConfigError(
                f"policy.{path}: expected numbers above 0 in its schedule, got {min(schedule.numbers)}, because an "
                "optimizer without momentum has other moments in its checkpoints."
            )
        if policy.compile and path.startswith(DECISIONS):
            raise ConfigError(
                f"policy.{path} is a schedule, but a loss compiled by policy.compile=True cannot change what it "
                "computes by this number: give a number, or set policy.compile=False."
            )


def check_normalization(cfg: EasyDict, policy_cls: Any) -> None:
    """Check that the policy's training loop can normalise what the config wants normalised."""
    norm_obs, norm_reward = cfg.env.norm_obs, cfg.env.norm_reward
    offline = policy_cls.learns_from == "dataset"
    if norm_obs.offline_stats.use_offline_stats and norm_obs.use_norm and not offline:
        raise ConfigError(
            f"env.norm_obs.offline_stats.use_offline_stats=True: policy '{cfg.policy.type}' learns without a data set. "
            "Leave it out: the statistics are then those of the observations that are collected."
        )
    if not norm_reward.use_norm:
        return
    if offline:
        raise ConfigError(
            f"env.norm_reward=True: policy '{cfg.policy.type}' learns from a data set, whose rows need not be whole "
            "episodes in order of time. Leave it out, and scale the rewards of the data set instead."
        )
    discount = cfg.policy.get("discount_factor")
    if norm_reward.reward_discount is None and (discount is None or isinstance(discount, Mapping)):
        why = "the policy has no discount_factor"
        if discount is not None:
            why = "policy.discount_factor is a schedule, and the returns that scale the rewards have one discount"
        raise ConfigError(f"env.norm_reward.reward_discount: expected a number, as {why}.")


def check_schedule(path: str, key: Key, schedule: Mapping[str, Any]) -> None:
    """Check a schedule, each number of which the key `path`, which begins with 'policy.', must allow."""
    if reason := why_constant(path, key):
        raise ConfigError(
            f"{path} cannot change during a run, because {reason}: expected a number, got {show_value(dict(schedule))}."
        )
    kind, by = _check_fields(path, schedule)
    if kind == "piecewise":
        _check_points(f"{path}.points", schedule["points"], UNITS[by])
    elif not (matches(schedule["over"], float) and 0 < schedule["over"] < math.inf):
        raise ConfigError(f"{path}.over: expected a number of {UNITS[by]} above 0, got {show_value(schedule['over'])}.")
    for number in Schedule(**schedule).numbers:
        if not (matches(number, float) and math.isfinite(number)):
            raise ConfigError(f"{path}: expected finite numbers in its schedule, got {show_value(number)}.")
        key.check(path, number)
        if kind == "exponential" and number <= 0:
            raise ConfigError(
                f"{path}: an exponential schedule needs numbers above 0, got {number}: choose 'linear' or 'cosine'."
            )


def _check_fields(path: str, schedule: Mapping[str, Any]) -> tuple[str, str]:
    """Check that a schedule has the fields of its type and no others; return its type and its count."""
    kind = schedule.get("type")
    if not isinstance(kind, str) or kind not in SCHEDULE_FIELDS:
        kinds = ", ".join(f"'{name}'" for name in SCHEDULE_FIELDS)
        raise ConfigError(f"{path}.type: expected a number, or a schedule of one of the types {kinds}, got {kind!r}.")
    needs = f"a schedule of type '{kind}' has the fields type, {', '.join(SCHEDULE_FIELDS[kind])}"
    for name in SCHEDULE_FIELDS[kind]:
        if name not in schedule:
            raise ConfigError(f"{path}.{name} is missing: {needs}.")
    for name in schedule:
        if name not in ("type", *SCHEDULE_FIELDS[kind]):
            raise ConfigError(f"Unknown key '{path}.{name}': {needs}.{closest(name, SCHEDULE_FIELDS[kind])}")
    if schedule["by"] not in tuple(UNITS):
        names = ", ".join(f"'{name}'" for name in UNITS)
        raise ConfigError(f"{path}.by: expected one of {names}, got {schedule['by']!r}.")
    return kind, schedule["by"]


def _check_points(path: str, points: Any, unit: str) -> None:
    pairs = isinstance(points, list) and len(points) > 1 and all(matches(pair, list[float]) for pair in points)
    if not pairs or any(len(pair) != 2 for pair in points):
        raise ConfigError(
            f"{path}: expected at least two pairs [{unit}, number], such as [[0, 0.1], [1000, 0.01]], got "
            f"{show_value(points)}."
        )
    counts = [pair[0] for pair in points]
    if any(not first < second for first, second in itertools.pairwise(counts)) or counts[0] < 0:
        raise ConfigError(f"{path}: expected {unit} from 0 on in increasing order, got {show_value(counts)}.")
