"""Converts observations of environments for policies, and describes both.

A policy sees vectors of floats, images of bytes with the channels first, or a dict of these. All other spaces of
environments are converted here; actions are converted in `actions`. This module never imports torch, because worker
processes import it. Shapes: A choices.
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
        action_space: actions as the policy chooses them, see `actions.ActionUnits`.
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
