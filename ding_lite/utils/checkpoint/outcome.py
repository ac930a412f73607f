"""Calls that have the same outcome on all ranks: each returns on all of them, or raises the same error on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ding_lite.utils.ranks.collectives import all_gather_object, broadcast_object_list
from ding_lite.utils.ranks.ranks import get_rank, get_world_size
from ding_lite.utils.registry import UserError

Value = TypeVar("Value")


def on_rank_0(function: Callable[[], Value]) -> Value:
    """Call `function` on rank 0 and return its value on every rank, or raise its `UserError` or `SystemExit` there."""
    outcome: list[Any] = _attempt(function) if get_rank() == 0 else [None, None]
    broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def on_every_rank(function: Callable[[], Value]) -> list[Value]:
    """Call `function` on every rank and return all values, in the order of ranks.

    If it raises a `UserError` on a rank, every rank raises the first one; with several ranks, the message names it.
    """
    outcomes = all_gather_object(_attempt(function))
    for rank, (_, error) in enumerate(outcomes):
        if error is not None:
            raise type(error)(f"[rank {rank}] {error}") if get_world_size() > 1 else error
    return [value for value, _ in outcomes]


def _attempt(function: Callable[[], Any]) -> list[Any]:
    """Return `[value, None]` or `[None, error]`; the other ranks wait for either."""
    try:
        return [function(), None]
    except (UserError, SystemExit) as error:
        return [None, error]
