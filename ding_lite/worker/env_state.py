"""Converts the state of vector environments to the tensors that a checkpoint can hold, and back to arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ding_lite.utils.registry import UserError


def to_tensors(state: Any) -> Any:
    """Return nested dicts and lists in which each array is a tensor that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, state)


def to_arrays(state: Any) -> Any:
    """Return nested dicts and lists in which each tensor is an array that shares its memory; other leaves stay."""
    return _map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf, state)


def storable(values: Any) -> Any:
    """Return the values of an attribute as a checkpoint can hold them: tuples become lists.

    Raises:
        UserError: they are not numbers, texts, arrays, or lists and dicts of these.
    """
    if isinstance(values, list | tuple):
        return [storable(part) for part in values]
    if isinstance(values, dict):
        return {key: storable(part) for key, part in values.items()}
    if isinstance(values, np.generic):
        return values.item()
    if isinstance(values, int | float | str | np.ndarray | None):
        return values
    raise UserError(
        f"set_attr: expected numbers, texts, arrays, or lists and dicts of these, which a checkpoint can hold, got a "
        f"{type(values).__name__}."
    )


def _map_leaves(fn: Callable[[Any], Any], state: Any) -> Any:
    if isinstance(state, list):
        return [_map_leaves(fn, part) for part in state]
    return {key: _map_leaves(fn, part) for key, part in state.items()} if isinstance(state, dict) else fn(state)
