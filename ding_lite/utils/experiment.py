"""The directory that a run writes into: a new one for every run, the same one on all ranks."""

from __future__ import annotations

import itertools
import os
import time

from ding_lite.utils.distributed import broadcast_object_list
from ding_lite.utils.launch import get_rank
from ding_lite.utils.registry import ConfigError


def create_exp_dir(exp_name: str) -> str:
    """Make a directory that no run has used and return its path, the same on every rank.

    It is `exp_name`, or if that exists `exp_name_YYMMDD_HHMMSS`, or `exp_name_YYMMDD_HHMMSS_k` with k = 1, 2 ... Rank 0
    alone decides, because a clock or a file system may look different elsewhere. Collective: every rank must call it.

    Raises:
        ConfigError: The directory cannot be made; on every rank, so that none waits for the others.
    """
    result: list[str | None] = [None, None]  # path, error
    if get_rank() == 0:
        try:
            result[0] = _make_new_dir(exp_name)
        except OSError as error:
            result[1] = f"Cannot make the experiment directory '{exp_name}': {error.strerror}; change exp_name."
    broadcast_object_list(result)
    path, message = result
    if path is None:
        raise ConfigError(message)
    return path


def _make_new_dir(exp_name: str) -> str:
    os.makedirs(os.path.dirname(os.path.abspath(exp_name)), exist_ok=True)
    stamped = f"{exp_name.rstrip('/')}_{time.strftime('%y%m%d_%H%M%S')}"
    path, tries = exp_name, itertools.count()
    while True:
        try:
            os.mkdir(path)  # atomic: of two runs that start together, one gets the name
            return path
        except FileExistsError:
            k = next(tries)
            path = f"{stamped}_{k}" if k else stamped
