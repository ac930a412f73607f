"""Returns the rank of this process and the number of processes that train together; one process needs no group."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from easydict import EasyDict

from ding_lite.utils.ranks.launch_environment import read_launch

_alone = 0  # number of nested `alone` contexts


@contextmanager
def alone() -> Iterator[None]:
    """Return a context manager in which this process counts as the only one, so that no call in it is a collective.

    Use it for work that each rank does at its own pace, and in a forked child, which must not use the inherited group.
    """
    global _alone
    _alone += 1
    try:
        yield
    finally:
        _alone -= 1


def get_rank() -> int:
    """Return this process's global rank, 0 without a group."""
    return dist.get_rank() if dist.is_initialized() and not _alone else 0


def get_world_size() -> int:
    """Return the number of processes, 1 without a group."""
    return dist.get_world_size() if dist.is_initialized() and not _alone else 1


def get_local_rank() -> int:
    """Return this process's rank on its machine, 0 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_rank if launch else int(os.environ.get("LOCAL_RANK") or 0)


def get_local_world_size() -> int:
    """Return the number of processes on this machine, 1 without a group."""
    launch = read_launch() if dist.is_initialized() else None
    return launch.local_world_size if launch else 1


def to_ddp_config(cfg: dict[str, Any]) -> EasyDict:
    """Return a copy of a single-process `main_config` with `policy.divide=True`: all ranks share its sizes."""
    new = EasyDict(copy.deepcopy(dict(cfg)))
    new.policy = EasyDict(new.get("policy", {}), divide=True)
    return new
