"""Converts the state of vector environments to the tensors that a checkpoint can hold, and back to arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def to_tensors(state: Any) -> Any:
    """Return nested dicts and lists in which each array is a tensor that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, state)


def to_arrays(state: Any) -> Any:
    """Return nested dicts and lists in which each tensor is an array that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, state)


def _map_leaves(fn: Callable[[Any], Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_map_leaves(fn, part) for part in state]
    return {key: _map_leaves(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)
