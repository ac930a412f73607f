"""What values of a config must be beyond their types: in range, no contradiction, and no more than memory holds."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from typing import Any

import gymnasium
from easydict import EasyDict
from gymnasium.vector.utils import create_empty_array

from ding_lite.config import schema as sc
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves

HOOK = "policy.learn.learner.hook"
# (low, high), both possible: the keys that must lie between.
RANGES: dict[tuple[float, float], tuple[str, ...]] = {
    (1, 2**31 - 1): (
        *("env.n_evaluator_episode", "env.max_episode_steps", "policy.nstep", "policy.unroll_len"),
        *("policy.learn.batch_size", "policy.learn.update_per_collect", "policy.learn.epoch_per_collect"),
        *("policy.learn.target_update_freq", "policy.collect.n_sample", "policy.collect.n_episode"),
        *("policy.learn.train_epoch", "policy.learn.actor_update_freq", "policy.learn.num_actions"),
        *("policy.eval.evaluator.eval_freq", "policy.other.eps.decay", f"{HOOK}.log_show_after_iter"),
        *(f"{HOOK}.save_ckpt_after_iter", f"{sc.BUFFER}.replay_buffer_size", f"{sc.BUFFER}.anneal_step"),
    ),
    (0, 2**31 - 1): ("policy.random_collect_size",),
    (1, 4096): ("env.collector_env_num", "env.evaluator_env_num", "policy.num_threads"),
    (0, 4096): ("env.frame_stack", "env.manager.num_threads", "policy.learn.learner.dataloader.num_workers"),
    (0, math.inf): (
        *("seed", "env.manager.max_retry"),
        *("policy.learn.clip_ratio", "policy.learn.grad_clip_value"),
        *("policy.learn.rho_clip_ratio", "policy.learn.c_clip_ratio", "policy.learn.rho_pg_clip_ratio"),
        *(f"{sc.BUFFER}.alpha", "policy.learn.kl_beta"),
        *("policy.learn.alpha", "policy.learn.beta", "policy.learn.min_q_weight", "policy.learn.kappa"),
        *("policy.learn.noise_sigma", "policy.collect.noise_sigma"),
    ),
    (0, 1): (
        *("policy.discount_factor", "policy.other.eps.start", "policy.other.eps.end", f"{sc.BUFFER}.beta"),
        *("policy.collect.gae_lambda", "policy.learn.lambda_"),
    ),
    (0, 10**6): (
        *("policy.learn.learning_rate", "policy.learn.weight_decay"),
        *(f"policy.learn.learning_rate_{part}" for part in ("actor", "critic", "policy", "q", "value", "alpha")),
    ),
    (0.001, 10**6): ("env.manager.step_timeout",),
    (-math.inf, math.inf): (  # not nan
        *("policy.learn.value_weight", "policy.learn.entropy_weight", "policy.learn.target_entropy"),
        *("policy.learn.lagrange_thresh", "policy.learn.noise_range.min", "policy.learn.noise_range.max"),
    ),
}
# The same of policy.model's numbers, and of those in its lists, by how the key ends.
MODEL_RANGES = {("_size", "_shape", "_size_list"): (1, 2**16), ("_num",): (0, 1000)}


def check_values(cfg: EasyDict) -> None:
    """Raise `ConfigError` for a number out of range, or two values that contradict each other."""
    for path, (low, high), value in _bounded_values(cfg):
        if value is not None and not low <= value <= high:
            expected = f"a number from {low} to {high}" if value > high or high == 1 else f"at least {low}"
            raise ConfigError(f"{path}: expected {expected if low > -math.inf else 'a number'}, got {value!r}.")
    if not cfg.exp_name.strip() or "\0" in cfg.exp_name:
        raise ConfigError(f"exp_name: expected the name of a directory, got {sc.show(cfg.exp_name)}.")
    _check_pairs(cfg)


def _bounded_values(cfg: EasyDict) -> Iterator[tuple[str, tuple[float, float], Any]]:
    for bounds, paths in RANGES.items():
        yield from ((path, bounds, sc.get_key(cfg, path)) for path in paths)
    for key, value in cfg.policy.get("model", {}).items():
        if key.endswith("_size_list") and value == []:
            raise ConfigError(f"policy.model.{key}: expected at least one layer's size, got [].")
        for ends, bounds in MODEL_RANGES.items():
            if key.endswith(ends) and sc.matches(value, (int, list[int])):
                yield from (
                    (f"policy.model.{key}", bounds, one) for one in (value if isinstance(value, list) else [value])
                )


def _check_pairs(cfg: EasyDict) -> None:
    n_sample, n_episode = (sc.get_key(cfg, f"policy.collect.{key}") for key in ("n_sample", "n_episode"))
    if n_sample is not None and n_episode is not None:
        raise ConfigError("Set policy.collect.n_sample or policy.collect.n_episode, not both.")
    pairs = (
        ("policy.collect.n_sample", "env.collector_env_num"),
        ("policy.collect.n_episode", "env.collector_env_num"),
        ("env.n_evaluator_episode", "env.evaluator_env_num"),
    )
    for path, divisor in pairs:
        value, number = sc.get_key(cfg, path), sc.get_key(cfg, divisor)
        if path == "policy.collect.n_sample":
            number //= math.gcd(number, cfg.policy.get("unroll_len", 1))  # a sample is so many env steps
        if value is not None and value % number:
            near = " or ".join(str(n) for n in (value - value % number, value - value % number + number) if n)
            source = divisor if number == sc.get_key(cfg, divisor) else f"{divisor} / gcd({divisor}, policy.unroll_len)"
            raise ConfigError(f"{path}={value} is not a multiple of {source}={number}: set it to {near}.")
    size, buffer_type = (sc.get_key(cfg, f"{sc.BUFFER}.{key}") for key in ("replay_buffer_size", "type"))
    for path in ("policy.learn.batch_size", "policy.collect.n_sample"):
        if size is not None and (sc.get_key(cfg, path) or 0) > size:
            raise ConfigError(
                f"{path}={sc.get_key(cfg, path)} is more than {sc.BUFFER}.replay_buffer_size={size} holds."
            )
    priority = bool(cfg.policy.get("priority"))
    if buffer_type == ("uniform" if priority else "prioritized"):
        raise ConfigError(f"{sc.BUFFER}.type='{buffer_type}' contradicts policy.priority={priority}: set one of them.")
    rows = size // cfg.env.collector_env_num if size is not None else math.inf
    if "unroll_len" not in cfg.policy and rows < (needed := cfg.policy.get("nstep", 1) + max(cfg.env.frame_stack, 1)):
        raise ConfigError(
            f"{sc.BUFFER}.replay_buffer_size={size} is too small: {cfg.env.collector_env_num} environments need at "
            f"least {needed * cfg.env.collector_env_num} with policy.nstep and env.frame_stack as they are."
        )


def check_memory(cfg: EasyDict, observation_space: gymnasium.Space) -> None:
    """Raise `ConfigError` for sizes that alone take more than this machine's memory.

    They would end the run late, when the memory is asked for, or worse, when it is filled.
    """
    obs_bytes = sum(leaf.nbytes for leaf in tree_leaves(create_empty_array(observation_space, 1)))
    obs_bytes *= cfg.policy.get("unroll_len", 1)
    each = {"policy.collect.n_sample": obs_bytes}
    each[f"{sc.BUFFER}.replay_buffer_size"] = obs_bytes // max(cfg.env.frame_stack, 1)
    needed = {path: (sc.get_key(cfg, path) or 0) * num_bytes for path, num_bytes in each.items()}
    for key, value in cfg.policy.model.items():
        if key.endswith("hidden_size_list") and sc.matches(value, list[int]):
            layers = sum(math.prod(pair) for pair in itertools.pairwise(value))
        elif key.endswith("hidden_size") and sc.matches(value, int):
            layers = value**2 * sc.get_key(cfg, f"policy.model.{key.removesuffix('hidden_size')}layer_num", 1)
        else:
            continue
        needed[f"policy.model.{key}"] = layers * 16  # float32; the weights, their gradient, Adam's two moments
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path, num_bytes in needed.items():
        if num_bytes > total:
            what = f"{sc.get_key(cfg, path)} takes {num_bytes / 2**30:.3g} GiB"
            raise ConfigError(f"{path}={what}, and this machine has {total / 2**30:.3g} GiB: lower it.")
