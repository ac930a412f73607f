"""Converts the state of vector environments to the tensors that a checkpoint can hold, and back to arrays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from ding_lite.utils.registry import UserError

PLAIN = (bool, int, float, str, type(None))


def to_tensors(state: Any) -> Any:
    """Return nested dicts and lists in which each array is a tensor that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, state)


def to_arrays(state: Any) -> Any:
    """Return nested dicts and lists in which each tensor is an array that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, state)


def storable(values: Any) -> Any:
    """Return a copy of the values of an attribute that a checkpoint can hold: tuples become lists.

    Raises:
        UserError: they are not numbers, texts, arrays of numbers, or lists and dicts of these.
    """
    if isinstance(values, list | tuple):
        return [storable(part) for part in values]
    if isinstance(values, dict):
        return {key: storable(part) for key, part in values.items()}
    if isinstance(values, np.ndarray):
        with suppress(TypeError, ValueError):  # torch has no such type
            return torch.from_numpy(values.copy()).numpy()
    if isinstance(values, np.generic):
        values = values.item()
    if type(values) in PLAIN:
        return values
    found = f"array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
    raise UserError(
        f"set_attr: expected numbers, texts, arrays of numbers, or lists and dicts of these, which a checkpoint can "
        f"hold, got: {found}."
    )


def _map_leaves(fn: Callable[[Any], Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_map_leaves(fn, part) for part in state]
    return {key: _map_leaves(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)
