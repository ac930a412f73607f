"""Converts single observations and batches to what a policy takes, and its actions to what an environment takes.

Shapes: N observations in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

from ding_lite.envs.spaces import observation_side
from ding_lite.utils.key import show
from ding_lite.utils.registry import UserError

FEW = 3  # keys of a dict that a message names


class AgentError(UserError, ValueError):
    """A call that an agent cannot carry out, because of its arguments or its policy."""


class Part(NamedTuple):
    """A part of an observation."""

    path: tuple[str, ...]  # the keys that lead to it; empty if the observation is not a dict
    shape: tuple[int, ...]  # its shape in one observation
    dtype: np.dtype[Any]
    labels: bool  # whether it holds integer labels; only then is an array of integers tried as labels


class Observations:
    """Reads one observation or a batch of them, from arrays, tensors, lists or dicts of these.

    Args:
        space: the space of one observation, as the policy sees it.
        env_space: the space before the conversion of `PolicyObservations`; None if there is only `space`.
        layout: `env.image_layout`.
        actions: the space of the environment's actions.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        env_space: gymnasium.Space[Any] | None,
        layout: str = "",
        actions: gymnasium.Space[Any] | None = None,
    ) -> None:
        self._space, self._parts = space, list(find_parts(space))
        self._convert: Callable[[Any], Any] | None = None
        self._env_parts: list[Part] = []
        if env_space is not None:
            side, convert, _ = observation_side(env_space, layout, actions)
            parts = list(find_parts(env_space))
            if side == space and parts != self._parts:
                self._env_parts, self._convert = parts, convert
        self._simple = not isinstance(space, Dict)

    def read(self, obs: Any) -> tuple[Any, int | None]:
        """Return a batch `[N, ...]` for a policy, and N; for one observation, a batch of one and None.

        Raises:
            AgentError: the observations have other keys, another shape or another kind of numbers.
        """
        if self._convert is not None and _has_labels(obs, self._env_parts):
            batch = self._batch(obs, self._env_parts)
            if batch is not None:
                return self._convert(batch[0]), batch[1]
        batch = self._batch(obs, self._parts)
        if batch is None and self._convert is not None:
            converted = self._batch(obs, self._env_parts)
            batch = converted and (self._convert(converted[0]), converted[1])
        if batch is None:
            raise AgentError(self._describe_mistake(obs))
        return batch

    def _batch(self, obs: Any, parts: list[Part]) -> tuple[Any, int | None] | None:
        """Return a batch, and N or None, if the observations have these parts; otherwise None."""
        if self._simple:
            ((_, shape, dtype, _),) = parts
            array = _to_array(obs)
            number = _count(array, shape)
            if number == 0:
                return None
            return _cast(array if number else array[None], dtype), number
        if not isinstance(obs, Mapping) or set(find_paths(obs)) != {part.path for part in parts}:
            return None
        arrays = {part.path: _to_array(_at(obs, part.path)) for part in parts}
        (number, *others) = {_count(arrays[part.path], part.shape) for part in parts}
        if others or number == 0:
            return None
        batch: dict[str, Any] = {}
        for path, _, dtype, _ in parts:
            node = batch
            for key in path[:-1]:
                node = node.setdefault(key, {})
            array = arrays[path]
            node[path[-1]] = _cast(array if number else array[None], dtype)
        return batch, number

    def _describe_mistake(self, obs: Any) -> str:
        forms = [_describe(parts) for parts in (self._parts, self._env_parts) if parts]
        if isinstance(obs, Mapping):
            found = [f"{_name(path)} {_describe_leaf(_at(obs, path))}" for path in find_paths(obs)]
            got = ", ".join(found[:FEW]) or "an empty dict"
        else:
            got = f"{'shape ' * _has_numbers(_to_array(obs))}{_describe_leaf(obs)}"
        return f"Expected one observation, {' or '.join(forms)}, or a batch with one more leading dimension, got {got}."


def find_parts(space: gymnasium.Space[Any], path: tuple[str, ...] = ()) -> Iterator[Part]:
    """Yield the parts of the observations of a space."""
    if isinstance(space, Dict):
        for key, part in space.items():
            yield from find_parts(part, (*path, key))
    else:
        assert space.shape is not None
        yield Part(path, space.shape, np.dtype(space.dtype), isinstance(space, Discrete | MultiDiscrete))


def find_paths(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each leaf of nested dicts."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from find_paths(value, (*path, key))
    else:
        yield path


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _to_array(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | torch.Tensor):
        return leaf
    try:
        return np.asarray(leaf)
    except ValueError:  # a list whose parts have different lengths is no array
        return np.empty((), object)


def _count(array: Any, shape: tuple[int, ...]) -> int | None:
    """Return N if an array is a batch `[N, *shape]`, None if it is one observation, and 0 if it is neither."""
    found = tuple(array.shape)
    if found == shape:
        return None
    return found[0] if found[1:] == shape and len(found) > len(shape) else 0


def _has_labels(obs: Any, parts: list[Part]) -> bool:
    """Return whether the parts that may be labels are integers: an array of integers is not a one-hot vector."""
    labels = [part.path for part in parts if part.labels]
    if not labels or (isinstance(obs, Mapping) and not set(labels) <= set(find_paths(obs))):
        return False
    return all(_is_whole(_to_array(_at(obs, path))) for path in labels)


def _is_whole(array: Any) -> bool:
    if isinstance(array, torch.Tensor):
        return not array.is_floating_point()
    return array.dtype.kind in "iu"


def _cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array or a tensor with the type of the space."""
    if isinstance(array, torch.Tensor):
        array = array.detach()
        if array.is_floating_point() and dtype.kind != "f":
            raise _wrong_kind(dtype)
        return array.to(torch.from_numpy(np.empty(0, dtype)).dtype)
    if array.dtype == dtype:
        return array
    if not _has_numbers(array) or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise _wrong_kind(dtype)
    return array.astype(dtype)


def _has_numbers(array: Any) -> bool:
    return isinstance(array, torch.Tensor) or array.dtype.kind in "biuf"


def _wrong_kind(dtype: np.dtype[Any]) -> AgentError:
    return AgentError(f"Expected observations of {dtype}, as the environment returns them, got another kind of values.")


def _name(path: tuple[str, ...]) -> str:
    return f"'{'.'.join(path)}'"


def _describe_leaf(leaf: Any) -> str:
    """Return the shape of numbers; the type and the text of anything else."""
    array = _to_array(leaf)
    return str(list(array.shape)) if _has_numbers(array) else show(leaf)


def _describe(parts: list[Part]) -> str:
    if not parts[0].path:
        return f"an array of shape {list(parts[0].shape)}"
    names = [f"{_name(part.path)} {list(part.shape)}" for part in parts]
    return f"a dict of {', '.join(names[:FEW])}{' and more' * (len(names) > FEW)}"
