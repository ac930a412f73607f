"""Converts single observations and batches to what a policy takes, and its actions to what an environment takes.

Shapes: N observations in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

from ding_lite.envs.spaces import observation_side
from ding_lite.utils.key import show
from ding_lite.utils.registry import UserError
from ding_lite.utils.tree import dotted_items

FEW = 3  # keys of a dict that a message names


class AgentError(UserError, ValueError):
    """A call that an agent cannot carry out, because of its arguments or its policy."""


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
        self._space, self._env_space = space, env_space
        self._convert: Callable[[Any], Any] | None = None
        if env_space is not None and env_space != space:
            side, convert, _ = observation_side(env_space, layout, actions)
            self._convert = convert if side == space else None

    def read(self, obs: Any) -> tuple[Any, int | None]:
        """Return a batch `[N, ...]` for a policy, and N; for one observation, a batch of one and None.

        Raises:
            AgentError: the observations have other keys, another shape or another kind of numbers.
        """
        forms: list[tuple[Any, Callable[[Any], Any]]] = [(self._space, lambda batch: batch)]
        if self._convert is not None:
            labels = list(_labels(obs, self._env_space))
            forms.insert(0 if labels and all(labels) else 1, (self._env_space, self._convert))
        for space, convert in forms:
            if (batch := _batch(obs, space)) is not None:
                return convert(batch[0]), batch[1]
        raise AgentError(self._describe_mistake(obs))

    def _describe_mistake(self, obs: Any) -> str:
        forms = [_describe(space) for space in (self._space, self._convert and self._env_space) if space is not None]
        if isinstance(obs, Mapping):
            found = [f"'{path}' {_describe_leaf(leaf)}" for path, leaf in dotted_items(obs)]
            got = ", ".join(found[:FEW]) or "an empty dict"
        else:
            got = f"{'shape ' * _has_numbers(_to_array(obs))}{_describe_leaf(obs)}"
        return f"Expected one observation, {' or '.join(forms)}, or a batch with one more leading dimension, got {got}."


def _batch(obs: Any, space: Any) -> tuple[Any, int | None] | None:
    """Return a batch, and N or None, if observations have the parts of a space; otherwise None."""
    if isinstance(space, Dict):
        if not isinstance(obs, Mapping) or obs.keys() != space.keys():
            return None
        parts = {key: part for key in space if (part := _batch(obs[key], space[key])) is not None}
        if len(parts) < len(space.spaces) or len({number for _, number in parts.values()}) > 1:
            return None
        return {key: part for key, (part, _) in parts.items()}, next(iter(parts.values()))[1]
    array = _to_array(obs)
    number = _count(array, space.shape)
    return None if number == 0 else (_cast(array if number else array[None], np.dtype(space.dtype)), number)


def _labels(obs: Any, space: Any) -> Iterator[bool]:
    """Yield whether observations are integers, for each part that has labels: one-hot vectors are no integers."""
    if isinstance(space, Dict):
        for key, part in space.items():
            yield from _labels(obs.get(key) if isinstance(obs, Mapping) else None, part)
    elif isinstance(space, Discrete | MultiDiscrete):
        array = _to_array(obs)
        yield not array.is_floating_point() if isinstance(array, torch.Tensor) else array.dtype.kind in "iu"


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


def _describe_leaf(leaf: Any) -> str:
    """Return the shape of numbers; the type and the text of anything else."""
    array = _to_array(leaf)
    return str(list(array.shape)) if _has_numbers(array) else show(leaf)


def _describe(space: Any) -> str:
    if not isinstance(space, Dict):
        return f"an array of shape {list(space.shape)}"
    names = [f"'{path}' {list(part.shape)}" for path, part in dotted_items(space)]
    return f"a dict of {', '.join(names[:FEW])}{' and more' * (len(names) > FEW)}"
