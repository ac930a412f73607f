"""Divides the sizes of a config among the ranks of a run, if `policy.divide` says that they are those of all together.

A rank gets whole environments, in order, and of everything else what belongs to them: so all environments take equally
many steps between two updates, keep equally many rows in replay, and a sample is drawn as often on whichever rank it
is. Ranks differ by one environment at most.
"""

from __future__ import annotations

import copy

from easydict import EasyDict

from ding_lite.utils.key import get_key, set_key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError

ENVS, BATCH = "env.collector_env_num", "policy.learn.batch_size"
# Sizes of which each environment has an equal part.
PARTS = ("policy.collect.n_sample", "policy.collect.n_episode", "policy.other.replay_buffer.replay_buffer_size")


def share(total: int, rank: int, ranks: int) -> range:
    """Return which of `total` things a rank has: they are dealt in order, and ranks differ by one at most."""
    quotient, more = divmod(total, ranks)
    first = rank * quotient + min(rank, more)
    return range(first, first + quotient + (rank < more))


def total(cfg: EasyDict, path: str, ranks: int) -> int:
    """Return a size of all ranks together, of a compiled config that is not divided yet; 0 if it has none."""
    return (get_key(cfg, path) or 0) * (1 if cfg.policy.get("divide") else ranks)


def divide(cfg: EasyDict, rank: int, ranks: int) -> EasyDict:
    """Return the config of one rank: without `policy.divide` the compiled config itself, else a copy with its sizes.

    `random_collect_size` stays that of all ranks. On-policy, `batch_size` may become a fraction: each collect is cut
    into as many minibatches as one process would make.
    """
    if not cfg.policy.get("divide"):
        return cfg
    own, learns_from = copy.deepcopy(cfg), POLICY_REGISTRY.find(cfg.policy.type).learns_from
    if learns_from == "dataset":
        own.policy.learn.batch_size = _part(cfg, BATCH, ranks, 1, ranks)
        return own
    num_envs = cfg.env.collector_env_num
    shares = [share(num_envs, each, ranks) for each in range(ranks)]
    _check_enough(ENVS, num_envs, [len(each) for each in shares])
    own.env.collector_env_num = len(shares[rank])
    for path in PARTS:
        if get_key(cfg, path) is not None:
            parts = [_part(cfg, path, num_envs, len(each), ranks) for each in shares]  # all of them: all ranks fail
            set_key(own, path, parts[rank])
    size = cfg.policy.learn.batch_size
    if learns_from == "collect":
        own.policy.learn.batch_size = size / ranks
        return own
    batches = [size * each.stop // num_envs - size * each.start // num_envs for each in shares]
    _check_enough(BATCH, size, batches)
    own.policy.learn.batch_size = batches[rank]
    return own


def _part(cfg: EasyDict, path: str, parts: int, number: int, ranks: int) -> int:
    """Return the share of one rank in a size, `number` of equal `parts`."""
    value = get_key(cfg, path)
    if value * number % parts:
        below, above = value // parts * parts, -(-value // parts) * parts
        raise ConfigError(
            f"{path}={value} is shared by {ranks} ranks (policy.divide): expected a multiple of {parts}, such as "
            f"{f'{below} or ' if below else ''}{above}."
        )
    return int(value * number // parts)


def _check_enough(path: str, value: int, shares: list[int]) -> None:
    if min(shares) < 1:
        raise ConfigError(
            f"{path}={value} is shared by {len(shares)} ranks (policy.divide): set at least {len(shares)}, or start at "
            f"most {value} ranks."
        )
