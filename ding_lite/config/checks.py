"""Checks of several config values together: contradictions, and sizes beyond the machine's memory."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import gymnasium
from easydict import EasyDict
from gymnasium.vector.utils import create_empty_array

from ding_lite.config import schema as sc
from ding_lite.utils.key import matches, show
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import tree_leaves


def check_values(cfg: EasyDict) -> None:
    """Raise `ConfigError` for values that contradict each other or can never be used."""
    if not cfg.exp_name.strip() or "\0" in cfg.exp_name:
        raise ConfigError(f"exp_name: expected the name of a directory, got {show(cfg.exp_name)}.")
    for key, value in cfg.policy.get("model", {}).items():
        if key.endswith("_size_list") and value == []:
            raise ConfigError(f"policy.model.{key}: expected at least one layer's size, got [].")
    _check_pairs(cfg)


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


def check_memory(cfg: EasyDict, observation_space: gymnasium.Space[Any]) -> None:
    """Raise `ConfigError` for sizes that need more than this machine's memory.

    Otherwise the run would end late, when the memory is allocated, or worse, when it is filled.
    """
    obs_bytes = sum(leaf.nbytes for leaf in tree_leaves(create_empty_array(observation_space, 1)))
    obs_bytes *= cfg.policy.get("unroll_len", 1)
    each = {"policy.collect.n_sample": obs_bytes}
    each[f"{sc.BUFFER}.replay_buffer_size"] = obs_bytes // max(cfg.env.frame_stack, 1)
    needed = {path: (sc.get_key(cfg, path) or 0) * num_bytes for path, num_bytes in each.items()}
    for key, value in cfg.policy.model.items():
        if key.endswith("hidden_size_list") and matches(value, list[int]):
            layers = sum(math.prod(pair) for pair in itertools.pairwise(value))
        elif key.endswith("hidden_size") and matches(value, int):
            layers = value**2 * sc.get_key(cfg, f"policy.model.{key.removesuffix('hidden_size')}layer_num", 1)
        else:
            continue
        needed[f"policy.model.{key}"] = layers * 16  # float32; the weights, their gradient, Adam's two moments
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path, num_bytes in needed.items():
        if num_bytes > total:
            what = f"{sc.get_key(cfg, path)} takes {num_bytes / 2**30:.3g} GiB"
            raise ConfigError(f"{path}={what}, and this machine has {total / 2**30:.3g} GiB: lower it.")
