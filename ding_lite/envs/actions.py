"""Converts actions between a policy's units and an environment's, both ways; bounds them; draws them at random.

Shapes: N environments or rows, M agents, A choices.
"""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import gymnasium.wrappers
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.utils.tree import MASK


class ActionUnits:
    """Knows the actions of one space in the units of a policy and in those of the environment.

    | the environment's space | the policy's space |
    |---|---|
    | `Box` | a Box of floats: with `act_scale` -1..1 in each dimension that has finite bounds, else the same bounds |
    | `Discrete`, `MultiDiscrete` | the same numbers of choices, counted from 0; an array of choices becomes a vector |
    | `MultiBinary` | a vector of choices between two options |
    | `Dict` | a Dict of these |
    | any other | the same |

    Actions outside the bounds of a Box are clipped in both directions; `to_env` rounds if the Box holds integers or
    bools. In a dimension whose bounds are equal, all actions of a policy mean the same, and `to_policy` returns 0.

    Attributes:
        space: the policy's action space.
        parts: the units of each part of a Dict; empty for other spaces.
        centre: the environment's numbers for 0; None for a Dict and for spaces that are not converted.
        half_width: for a Box, how far the numbers for -1 and 1 are from the centre; else None.
        low, high: the bounds of the environment, see `bounds_of`; for a Box as floats.
        whole: whether the environment's numbers are integers or bools.
        same: whether an action is the same array in both units.
    """

    def __init__(self, env_space: gymnasium.Space[Any], act_scale: bool = True) -> None:
        self.env_space = self.space = env_space
        self.parts: dict[str, ActionUnits] = {}
        self.low: Any = None
        self.high: Any = None
        self.centre: Any = None
        self.half_width: Any = None
        self.whole = self.same = True
        if isinstance(env_space, Dict):
            self.parts = {key: ActionUnits(part, act_scale) for key, part in env_space.items()}
            self.same = all(part.same for part in self.parts.values())
            if any(part.space is not part.env_space for part in self.parts.values()):
                self.space = Dict({key: part.space for key, part in self.parts.items()})
        elif isinstance(env_space, Box):
            self._scale(env_space, act_scale)
        elif isinstance(env_space, Discrete | MultiDiscrete | MultiBinary):
            self._count_from_zero(env_space)

    def _scale(self, box: Box, act_scale: bool) -> None:
        self.whole = not np.issubdtype(box.dtype, np.floating)
        dtype = np.dtype(np.float64 if self.whole else box.dtype)
        self.low, self.high = box.low.astype(dtype), box.high.astype(dtype)
        scaled = box.bounded_below & box.bounded_above & act_scale
        low, high = np.where(scaled, self.low, -1.0), np.where(scaled, self.high, 1.0)
        self.centre, self.half_width = low / 2 + high / 2, high / 2 - low / 2  # 0 and 1 where nothing is scaled
        self.same = not self.whole and not self.centre.any() and bool((self.half_width == 1).all())
        side: Any = np.float32 if self.whole else box.dtype.type
        least, most = (np.where(scaled, end, own).astype(side) for end, own in ((-1, self.low), (1, self.high)))
        self.space = Box(least, most, dtype=side)

    def _count_from_zero(self, space: Discrete | MultiDiscrete | MultiBinary) -> None:
        self.low, self.high = bounds_of(space)
        self.centre = self.low
        self.same = not self.low.any() and self.low.ndim < 2
        if isinstance(space, Discrete):
            self.space = space if self.same else Discrete(int(space.n))
        elif isinstance(space, MultiBinary) or not self.same:
            self.space = MultiDiscrete((self.high - self.low + 1).reshape(-1))

    def to_env(self, action: Any) -> Any:
        """Return a policy's actions `[N, ...]` in the environment's units, always in new memory."""
        if self.parts:
            return {key: part.to_env(action[key]) for key, part in self.parts.items()}
        if self.centre is None:
            return copy.deepcopy(action)
        if self.half_width is not None:
            return scale(action, self).astype(self.env_space.dtype)
        if self.same:
            return action.astype(self.env_space.dtype)
        return (action.reshape(-1, *self.low.shape) + self.centre).astype(self.env_space.dtype, copy=False)

    def to_policy(self, action: Any) -> Any:
        """Return actions `[N, ...]` of the environment in the policy's units, always in new memory."""
        if self.parts:
            return {key: part.to_policy(action[key]) for key, part in self.parts.items()}
        if self.centre is None:
            return copy.deepcopy(action)
        distance = action - self.centre
        if isinstance(self.space, Box):
            distance = np.divide(distance, self.half_width, out=np.zeros(action.shape), where=self.half_width != 0)
            return distance.astype(self.space.dtype).clip(self.space.low, self.space.high)
        assert self.space.shape is not None
        return distance.reshape(-1, *self.space.shape).astype(self.space.dtype)


def scale(action: Any, units: Any) -> Any:
    """Return the numbers of a Box for a policy's actions `[N, ...]`: tensors, if those of `units` are."""
    scaled = (action * units.half_width + units.centre).clip(units.low, units.high)
    return scaled.round() if units.whole else scaled


def bounds_of(space: Box | Discrete | MultiDiscrete | MultiBinary) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each number of a space."""
    if isinstance(space, Box):
        return space.low, space.high
    if isinstance(space, MultiBinary):
        return np.zeros(space.shape, np.int64), np.ones(space.shape, np.int64)
    low = np.asarray(space.start, np.int64)
    return low, low + np.asarray(space.n if isinstance(space, Discrete) else space.nvec, np.int64) - 1


class BoundActions(gymnasium.wrappers.TransformAction):
    """Declares finite bounds for continuous actions where the environment has none; the actions do not change.

    In a config: `env.wrappers=[dict(name="ding_lite.envs.actions:BoundActions", low=-2.0, high=2.0)]`; `low` and `high`
    are numbers, or lists of one for each dimension.
    """

    def __init__(self, env: gymnasium.Env, low: Any, high: Any) -> None:
        super().__init__(env, lambda action: action, _bounded(env.action_space, low, high))


def _bounded(space: gymnasium.Space[Any], low: Any, high: Any) -> gymnasium.Space[Any]:
    if isinstance(space, Dict):
        return Dict({key: _bounded(part, low, high) for key, part in space.items()})
    if not isinstance(space, Box):
        return space
    dtype: Any = space.dtype
    least, most = np.where(space.bounded_below, space.low, low), np.where(space.bounded_above, space.high, high)
    return Box(least.astype(dtype), most.astype(dtype), dtype=dtype.type)


class FirstActions(gymnasium.wrappers.TransformAction):
    """Leaves only the first `number` actions of a `Discrete` space."""

    def __init__(self, env: gymnasium.Env, number: int) -> None:
        assert isinstance(env.action_space, Discrete)
        super().__init__(env, lambda action: action, Discrete(number, start=env.action_space.start))


def random_actions(space: gymnasium.Space[Any], obs: Any) -> Any:
    """Draw actions of a vector environment from its batched space, whose random generator is used.

    If the observations `[N, ...]` are a dict with an `action_mask`, see `sample_masked`.
    """
    if isinstance(obs, dict) and MASK in obs:
        return sample_masked(obs[MASK], space.np_random)
    return space.sample()


def sample_masked(mask_XA: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw for each row of a mask `[..., A]` one of the actions that it allows, all equally likely: int64 `[...]`.

    Raises:
        ValueError: a row allows no action.
    """
    allowed_XA = np.asarray(mask_XA, np.bool_)
    count_X = allowed_XA.sum(-1)
    if not count_X.all():
        raise ValueError(f"action_mask: expected at least one allowed action in each row, got none in {mask_XA}.")
    drawn_X = rng.integers(count_X)  # the position among the allowed actions
    return (allowed_XA.cumsum(-1) > drawn_X[..., None]).argmax(-1)
