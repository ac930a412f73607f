"""Nested dicts of arrays, as observations can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def tree_map(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply `fn` to the leaves of nested dicts of the same keys; anything but a dict is a leaf."""
    if isinstance(tree, dict):
        return {key: tree_map(fn, value, *(other[key] for other in others)) for key, value in tree.items()}
    return fn(tree, *others)


def tree_leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of nested dicts."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from tree_leaves(value)
    else:
        yield tree


def lengthen(rows: np.ndarray, length: int) -> np.ndarray:
    """Return a longer array of rows that begins with those of `rows`; the rest is not set."""
    longer = np.empty((length, *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer
