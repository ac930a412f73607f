"""Converts observations and actions between environments and policies.

A policy chooses integers from 0, or vectors of floats. It sees vectors of floats, images of bytes with the channels
first, or a dict of these. All other spaces of environments are converted here. This module never imports torch,
because worker processes import it. Shapes: N environments, A choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.spaces.utils import flatdim

from ding_lite.utils.registry import ConfigError

CHANNELS = (1, 3, 4)  # of an image: grey, RGB, RGBA
LONGEST = 2**16  # numbers of a one-hot vector


@dataclass(frozen=True)
class EnvSpec:
    """The properties of a single environment on which a model depends.

    Attributes:
        observation_space: observations as the policy sees them, see `PolicyObservations`.
        action_space: actions as the policy chooses them, see `policy_side`.
        frame_stack: number of frames in one observation; 0 if observations are not frame stacks.
        notes: messages for the user about the conversion of observations.
        env_action_space: actions as the environment takes them; `check_env` fills it in.
        env_observation_space: observations before the conversion of `PolicyObservations`; None if they are unknown, or
            an observation is a stack of several.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    frame_stack: int
    notes: tuple[str, ...] = ()
    env_action_space: gymnasium.Space[Any] | None = None
    env_observation_space: gymnasium.Space[Any] | None = None


def stack_depth(cfg_env: EasyDict) -> int:
    """Return the number of frames in one observation, 0 if observations are not frame stacks."""
    return cfg_env.frame_stack if cfg_env.frame_stack > 1 else 0


class BoxActions:
    """Converts a policy's actions to those of a Box of numbers.

    With `act_scale`, -1..1 is mapped to low..high in every dimension that is bounded on both sides. Other dimensions
    stay unchanged. The result is clipped to the bounds, and rounded if the Box holds integers.

    Args:
        box: the environment's action space.
        act_scale: whether to map -1..1 to the bounds.

    Attributes:
        space: the policy's action space, a Box of floats.
        low: the lower bounds.
        high: the upper bounds.
        centre: what 0 is mapped to.
        half: the distance from the centre to the bounds.
        whole: whether the Box holds integers.
    """

    def __init__(self, box: Box, act_scale: bool) -> None:
        self._box, self.whole = box, np.issubdtype(box.dtype, np.integer)
        dtype = np.dtype(np.float64 if self.whole else box.dtype)
        self.low, self.high = box.low.astype(dtype), box.high.astype(dtype)
        scaled = box.bounded_below & box.bounded_above & act_scale
        low, high = np.where(scaled, self.low, -1.0), np.where(scaled, self.high, 1.0)
        self.centre, self.half = low / 2 + high / 2, high / 2 - low / 2  # 0 and 1 where nothing is scaled
        side = np.float32 if self.whole else box.dtype.type
        one = side(1)
        low, high = (np.where(scaled, end, own) for end, own in ((-one, self.low), (one, self.high)))
        self.space: Box = Box(low.astype(side), high.astype(side), dtype=side)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """Return the environment's actions `[N, ...]`, with the Box's dtype, for the policy's actions `[N, ...]`."""
        scaled = np.clip(action * self.half + self.centre, self.low, self.high)
        return (np.rint(scaled) if self.whole else scaled).astype(self._box.dtype)


def policy_side(space: gymnasium.Space[Any], act_scale: bool) -> tuple[gymnasium.Space[Any], Callable[[Any], Any]]:
    """Return the policy's action space, and a function that converts its batched actions to the environment's.

    For the policy, the actions of a `Discrete` or `MultiDiscrete` space always start at 0. A `MultiBinary` space is a
    `MultiDiscrete` one with two options for each bit, and arrays of choices are vectors.

    Args:
        space: the environment's action space.
        act_scale: whether -1..1 is mapped to the bounds of a Box, see `BoxActions`.
    """
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.number):
        actions = BoxActions(space, act_scale)
        return actions.space, actions
    if isinstance(space, Discrete) and space.start:
        return Discrete(int(space.n)), lambda action: action + space.start
    if isinstance(space, MultiBinary):
        return _choices_side(space, np.full(space.shape, 2), 0)
    if isinstance(space, MultiDiscrete) and (space.start.any() or space.nvec.ndim > 1):
        return _choices_side(space, space.nvec, space.start)
    if isinstance(space, Dict) and set(space) == {"action_type", "action_args"}:
        sides = {key: policy_side(space[key], act_scale) for key in ("action_type", "action_args")}
        hybrid = Dict({key: part for key, (part, _) in sides.items()})
        return hybrid, lambda action: {key: to_env(action[key]) for key, (_, to_env) in sides.items()}
    return space, lambda action: action


def _choices_side(
    space: MultiDiscrete | MultiBinary, options: np.ndarray, start: np.ndarray | int
) -> tuple[MultiDiscrete, Callable[[np.ndarray], np.ndarray]]:
    shape, dtype = options.shape, space.dtype
    return MultiDiscrete(options.reshape(-1)), lambda action: (action.reshape(-1, *shape) + start).astype(dtype)


class PolicyObservations(gymnasium.ObservationWrapper):
    """Wraps one environment and converts its observations to arrays that networks accept.

    * `Discrete` and `MultiDiscrete` become one-hot vectors of float32, `MultiBinary` a vector of float32.
    * A Box of integers becomes float32, except images (uint8 with two or more dimensions), which stay bytes.
    * An image `[H, W, C]` becomes `[C, H, W]`.
    * A number, a Box of shape (), becomes a vector of length 1. Other Boxes of floats are unchanged.
    * Each part of a Dict is converted in this way, unless its one-hot vector would be longer than 65,536. A Dict with
      the key `action_mask` is unchanged: it is made for a model of the user's own, which obeys the mask.

    Args:
        env: the environment.

    Attributes:
        note: a message for the user about the conversion; empty if none is necessary.

    Raises:
        ConfigError: the observation space, such as `Tuple` or `Text`, is not supported.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space, self._convert, self.note = observation_side(env.observation_space)

    @classmethod
    def wrap(cls, env: gymnasium.Env) -> gymnasium.Env:
        """Return the wrapped environment, or the environment itself if nothing has to be converted."""
        wrapped = cls(env)
        return env if wrapped.observation_space is env.observation_space else wrapped

    def observation(self, observation: Any) -> Any:
        """Return the converted observation."""
        return self._convert(observation)


def observation_side(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], Callable[[Any], Any], str]:
    """Return the policy's space, a function that converts an observation or a batch of them, and a note for the user.

    Raises:
        ConfigError: see `PolicyObservations`.
    """
    _check_supported(space)
    if isinstance(space, Box):
        return _box_side(space)
    if isinstance(space, Dict):
        return _dict_side(space)
    if flatdim(space) > LONGEST:
        raise ConfigError(
            f"The environment's observations are {space}, which would be a one-hot vector of {flatdim(space)} numbers: "
            f"expected at most {LONGEST}; wrap the environment."
        )
    vector = Box(0, 1, (flatdim(space),), np.float32)
    return vector, lambda obs: _flatten(space, np.asarray(obs)), ""


def _flatten(space: gymnasium.Space[Any], obs: np.ndarray) -> np.ndarray:
    """Return observations `[..., *shape]` as vectors `[..., A]`, as `gymnasium.spaces.flatten` does for one."""
    batch = obs.shape[: obs.ndim - len(space.shape or ())]
    if isinstance(space, MultiBinary):
        return obs.reshape(*batch, -1).astype(np.float32)
    if isinstance(space, Discrete):
        return (obs[..., None] - space.start == np.arange(space.n)).astype(np.float32)
    assert isinstance(space, MultiDiscrete)
    digits = (obs - space.start).reshape(*batch, -1)
    parts = [digits[..., i, None] == np.arange(n) for i, n in enumerate(space.nvec.flat)]
    return np.concatenate(parts, -1, dtype=np.float32)


def _dict_side(space: Dict) -> tuple[Dict, Callable[[Any], Any], str]:
    small = {key: part for key, part in space.items() if isinstance(part, Box | Dict) or flatdim(part) <= LONGEST}
    sides = {key: observation_side(part) for key, part in small.items()}
    changed = {key: convert for key, (part, convert, _) in sides.items() if part is not space[key]}
    if "action_mask" in space.spaces or not changed:
        return space, lambda obs: obs, ""
    notes = [f"'{key}': {note}" for key, (_, _, note) in sides.items() if note]
    parts = Dict({**space.spaces, **{key: part for key, (part, _, _) in sides.items()}})
    return parts, lambda obs: {**obs, **{key: fn(obs[key]) for key, fn in changed.items()}}, " ".join(notes)


def _check_supported(space: gymnasium.Space[Any]) -> None:
    if isinstance(space, Dict):
        for part in space.values():
            _check_supported(part)
    elif not isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
        raise ConfigError(
            f"The environment's observations are {space}: expected Box, Discrete, MultiDiscrete, MultiBinary, or a "
            "Dict of these: wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
        )


def _box_side(space: Box) -> tuple[Box, Callable[[Any], Any], str]:
    shape = space.shape
    if not shape:
        number = Box(space.low.reshape(1), space.high.reshape(1), dtype=space.dtype.type)
        vector, convert, note = _box_side(number)
        return vector, lambda obs: convert(np.asarray(obs)[..., None]), note
    if len(shape) == 3 and shape[2] in CHANNELS and min(shape[:2]) > max(CHANNELS):
        image = Box(np.moveaxis(space.low, 2, 0), np.moveaxis(space.high, 2, 0), dtype=space.dtype.type)
        note = f"observations {list(shape)} are images in the order height, width, channels: the policy sees them as "
        return image, lambda obs: np.moveaxis(np.asarray(obs), -1, -3), note + f"{list(image.shape)}, channels first."
    if np.issubdtype(space.dtype, np.floating) or (space.dtype == np.uint8 and len(shape) > 1):
        return space, lambda obs: obs, ""
    floats = Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return floats, lambda obs: np.asarray(obs, np.float32), ""


def random_actions(space: gymnasium.Space[Any], obs: Any) -> Any:
    """Draw actions of a vector environment at random, from those that the observations allow.

    Args:
        space: the policy's batched action space, whose random generator is used.
        obs: observations `[N, ...]`. If they are a dict with the key `action_mask`, bool `[N, A]`, or `[N, M, A]` for M
            agents, only actions for which the mask is True are drawn.

    Raises:
        ValueError: a mask allows no action.
    """
    if isinstance(obs, dict) and "action_mask" in obs:
        return sample_masked(obs["action_mask"], space.np_random)
    return space.sample()


def sample_masked(mask_XA: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw for each row of a mask `[..., A]` one of the actions that it allows, with equal probabilities.

    Returns:
        The actions, int64 `[...]`.

    Raises:
        ValueError: a row allows no action.
    """
    allowed_XA = np.asarray(mask_XA, np.bool_)
    count_X = allowed_XA.sum(-1)
    if not count_X.all():
        raise ValueError(f"action_mask: expected at least one allowed action in each row, got none in {mask_XA}.")
    drawn_X = rng.integers(count_X)  # the position among the allowed actions
    return (allowed_XA.cumsum(-1) > drawn_X[..., None]).argmax(-1)
