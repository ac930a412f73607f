"""The random generators of one process: seed them, save them, put them back."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def set_seed(seed: int) -> None:
    """Seed python's, numpy's global and torch's generators (CUDA included) of this process."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # numpy takes 32 bits
    torch.manual_seed(seed)


def random_state() -> dict[str, Any]:
    """Return the states of all generators that `set_seed` seeds, in types that a checkpoint can hold.

    Of CUDA it holds the current device's generator, if this process has used CUDA.
    """
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()  # a checkpoint takes no arrays
    state = {"python": random.getstate(), "numpy": numpy_state, "torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put back what `random_state` returned, wherever a checkpoint's `map_location` has moved its tensors."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
