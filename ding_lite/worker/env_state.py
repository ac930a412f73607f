"""Conversion of the state of vector environments between arrays and the tensors that a checkpoint holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def to_tensors(state: Any) -> Any:
    """Return nested dicts and lists with every array as a tensor in the same memory; other leaves are unchanged."""
    return _map_leaves(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, state)


def to_arrays(state: Any) -> Any:
    """Return nested dicts and lists with every tensor as an array in the same memory; other leaves are unchanged."""
    return _map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, state)


def _map_leaves(fn: Callable[[Any], Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_map_leaves(fn, part) for part in state]
    return {key: _map_leaves(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)
