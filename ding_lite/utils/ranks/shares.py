"""The sizes of a config that the processes of a run divide among them. This module never imports torch."""

from __future__ import annotations

from ding_lite.utils.registry import ConfigError

SHARED_SIZES = ("policy.learn.batch_size", "policy.collect.n_sample", "policy.collect.n_episode")


def divide(path: str, value: int, world_size: int) -> int:
    """Return one process's share of a size.

    Args:
        path: dotted name of the key, for the message.
        value: the size for all processes together.
        world_size: number of processes.

    Raises:
        ConfigError: `value` is not a multiple of `world_size`.
    """
    if value % world_size:
        near = -(-value // world_size) * world_size
        raise ConfigError(
            f"{path}={value} is shared by {world_size} processes: expected a multiple of {world_size}, such as {near}."
        )
    return value // world_size
