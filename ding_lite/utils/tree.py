"""Functions of trees: nested dicts of arrays or tensors, such as observations, or of other values, such as configs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

# Parts of a dict of observations: which actions are allowed, what each agent observes, the state of the whole task.
MASK, STATE, GLOBAL = "action_mask", "agent_state", "global_state"


def tree_map(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of nested dicts. Everything that is not a dict is a leaf.

    Args:
        fn: called with one leaf of each tree.
        tree: the tree whose keys are visited.
        *others: trees that have at least the keys of `tree`.

    Returns:
        A tree with the keys of `tree` and the results of `fn` as leaves.
    """
    if isinstance(tree, dict):
        return {key: tree_map(fn, value, *(other[key] for other in others)) for key, value in tree.items()}
    return fn(tree, *others)


def tree_leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of nested dicts, depth first."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from tree_leaves(value)
    else:
        yield tree


def dotted_items(tree: Mapping[str, Any], prefix: str = "", dot: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts with their keys, joined by `dot`, after `prefix`. An empty dict is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted_items(value, f"{prefix}{key}{dot}", dot)
        else:
            yield prefix + key, value


def write_row(rows: Any, index: int, row: Any) -> None:
    """Copy the leaves of a tree into row `index` of the arrays of another tree, whose keys are visited."""
    if isinstance(rows, dict):
        for key, part in rows.items():
            write_row(part, index, row[key])
    else:
        rows[index] = row


def leave_out(tree: Mapping[str, Any], paths: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Return nested dicts without the parts at dotted `paths`, and without dicts that would be empty."""
    kept: dict[str, Any] = {}
    for key, part in tree.items():
        if (path := f"{prefix}{key}") in paths:
            continue
        left = leave_out(part, paths, f"{path}.") if isinstance(part, Mapping) else part
        if left != {}:
            kept[key] = left
    return kept
