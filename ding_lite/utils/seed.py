"""Seeds, saves and restores the random generators of one process."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch, CUDA included, in this process.

    Args:
        seed: any integer; NumPy gets its lowest 32 bits.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)  # NumPy accepts 32 bits
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the states of all generators that `set_seed` seeds, in types that a checkpoint can hold.

    Returns:
        The states, by the keys `python`, `numpy` and `torch`. If this process has used CUDA, `cuda` is the state of the
        current device's generator.
    """
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()  # checkpoints cannot hold arrays
    state = {"python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the generators of this process.

    Args:
        state: what `random_state` returned. Its tensors may be on any device, because loading may have moved them.
    """
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
