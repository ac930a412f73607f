"""What a run changes in its process: the seed of random numbers, threads, denormal numbers, freed memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ding_lite.entry.setup import FIELDS, RunSetup
from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.torch_utils.networks import is_small
from ding_lite.utils.allocator import keep_freed_memory
from ding_lite.utils.ranks.launch_environment import usable_cores
from ding_lite.utils.seed import set_seed


@contextmanager
def policy_process(setup: RunSetup, *seed_path: str | int, fields: tuple[str, ...] = FIELDS) -> Iterator[Policy]:
    """Prepare this process for a run and build its policy; finally restore the number of threads.

    * The random generators of the process are seeded.
    * torch gets `policy.num_threads` threads, at most as many as cores. Without that key, a small network gets one.
    * Denormal numbers (below 1e-38) are rounded to 0 from now on. Adam's moments of a parameter without gradient become
      denormal, and processors compute with them up to a hundred times more slowly.
    * Freed memory is kept, see `keep_freed_memory`.

    Args:
        setup: the run.
        seed_path: names the use of the seed, which is derived from this path and the config's seed.
        fields: what to build the policy for. Without 'learn' there is no optimizer.

    Yields:
        The policy.

    Raises:
        ConfigError: the policy or its model is the user's own, and they do not fit, see `check_model`.
    """
    threads, wanted = torch.get_num_threads(), setup.cfg.policy.num_threads
    try:
        keep_freed_memory()
        torch.set_flush_denormal(True)
        torch.set_num_threads(min(wanted or threads, usable_cores()))
        set_seed(derive_seeds(setup.cfg.seed, *seed_path, n=1)[0])
        policy = setup.create_policy(fields)
        if wanted is None and is_small(policy.model):
            torch.set_num_threads(1)
        yield policy
    finally:
        torch.set_num_threads(threads)
