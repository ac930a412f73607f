"""Derives seeds from the config's seed; seeds, saves and restores the random generators of one process.

torch is imported where it is used: the processes of environments need seeds, and no torch.
"""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np

MASK64 = 2**64 - 1


def derive_seeds(seed: int, *path: int | str, n: int) -> list[int]:
    """Return `n` seeds below 2**31 that depend only on `seed`, the config's, and `path`, which names their use.

    Different paths, such as `(rank, "collect")` and `(rank, "evaluate", 3)`, give independent seeds. A larger `n` gives
    the same seeds and more.
    """
    key = tuple(part if isinstance(part, int) else zlib.crc32(part.encode()) for part in path)
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(n)
    return [int(word >> 1) for word in words]


def episode_seed(seed: int, episode: int) -> int:
    """Return the seed, below 2**31, of an environment's episode.

    Episode 0 has the environment's seed. All others have the SplitMix64 hash (Steele, Lea and Flood, 2014) of both
    numbers, which takes a microsecond; `derive_seeds` would take ten.
    """
    if episode == 0:
        return seed
    z = (seed << 32 | episode) + 0x9E3779B97F4A7C15 & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return (z ^ z >> 31) >> 33


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python and NumPy; NumPy gets the lowest 32 bits."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, CUDA included, in this process, with any integer."""
    import torch  # noqa: PLC0415

    seed_globals(seed)
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the states of all generators that `set_seed` seeds, in types that a checkpoint can hold.

    The keys are `python`, `numpy`, `torch` and, if this process has used CUDA, `cuda` for the current device.
    """
    import torch  # noqa: PLC0415

    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()  # checkpoints cannot hold arrays
    state = {"python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned; its tensors may be on any device, because loading may have moved them."""
    import torch  # noqa: PLC0415

    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
