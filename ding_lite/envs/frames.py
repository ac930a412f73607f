"""Stacks of an episode's newest frames, with zeros before its first one.

Frames are joined on their first axis: S vectors `[D]` to `[S D]`, S images `[C, H, W]` to `[S C, H, W]`. A frame of two
dimensions, such as a grey image, and a number get a new axis instead: `[S, H, W]`. Every part of a dict is stacked on
its own. This module never imports torch, because worker processes import it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector.utils import batch_space

from ding_lite.utils.tree import tree_map


class FrameStack(gymnasium.ObservationWrapper):
    """Stacks the newest frames of one environment, and copies them, since an environment may reuse their memory.

    Args:
        env: the environment.
        depth: S.
    """

    def __init__(self, env: gymnasium.Env, depth: int) -> None:
        super().__init__(env)
        self.observation_space, self._depth = stack_space(env.observation_space, depth), depth
        self._stack: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._stack = None
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
        """Return the stack that ends with this frame."""
        begins = self._stack is None
        self._stack = begin_stack(observation, self._depth) if begins else push_frame(self._stack, observation)
        return self._stack


def stack_space(space: gymnasium.Space[Any], depth: int) -> gymnasium.Space[Any]:
    """Return the space of stacks of `depth` frames of a space."""
    if isinstance(space, Dict):
        return Dict({key: stack_space(part, depth) for key, part in space.items()})
    stacked = batch_space(space, depth)
    if not isinstance(stacked, Box) or len(stacked.shape) in (1, 3):
        return stacked
    low, high = (side.reshape(-1, *stacked.shape[2:]) for side in (stacked.low, stacked.high))
    return Box(low, high, dtype=stacked.dtype.type)


def begin_stack(frame: Any, depth: int, axis: int = 0) -> Any:
    """Return the stack of an episode's first frame; the frames are at `axis`, after those of a batch."""

    def begin(leaf: Any) -> np.ndarray:
        newest = _as_part(leaf, axis)
        shape = list(newest.shape)
        shape[axis] *= depth - 1
        return np.concatenate([np.zeros(shape, newest.dtype), newest], axis)

    return tree_map(begin, frame)


def push_frame(stack: Any, frame: Any, axis: int = 0) -> Any:
    """Return a stack without its oldest frame, and with this newest one."""

    def push(old: np.ndarray, leaf: Any) -> np.ndarray:
        newest = _as_part(leaf, axis)
        return np.concatenate([old[(slice(None),) * axis + (slice(newest.shape[axis], None),)], newest], axis)

    return tree_map(push, stack, frame)


def _as_part(leaf: Any, axis: int) -> np.ndarray:
    """Return frames as they are joined at `axis`."""
    array = np.asarray(leaf)
    return np.expand_dims(array, axis) if array.ndim - axis in (0, 2) else array
