"""Converts and stacks observations of environments for policies, and describes both, also for checkpoints.

A policy sees vectors of floats, images of bytes with the channels first, or a dict of these. All other spaces of
environments are converted here; actions are converted in `actions`.

A stack holds an episode's newest frames, with zeros before its first one. Frames are joined on their first axis: S
vectors `[D]` to `[S D]`, S images `[C, H, W]` to `[S C, H, W]`. A frame of two dimensions, such as a grey image, and a
number get a new axis instead: `[S, H, W]`. Every part of a dict is stacked on its own.

Shapes: A choices, M agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from gymnasium.spaces.utils import flatdim
from gymnasium.vector.utils import batch_space

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.masks import mask_side
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import GLOBAL, MASK, STATE, dotted_items, tree_map

# The policy's space, a function that converts one observation or a batch, and a note for the user.
Side = tuple[gymnasium.Space[Any], Callable[[Any], Any], str]
CHANNELS = (1, 3, 4)  # channels of an image: grey, RGB, RGBA
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
        env_observation_space: observations before the conversion; None if unknown, or if one is a stack of several.
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
    """Converts the observations of one environment to arrays that networks accept.

    * `Discrete` and `MultiDiscrete` become one-hot vectors of float32, `MultiBinary` a vector of float32.
    * A Box of three dimensions is an image. `[H, W, C]` becomes `[C, H, W]`, see `find_layout`. Integers from 0 to 255
      become bytes, other integers and bools float32.
    * A Box of bytes `[H, W]` is a grey image and becomes `[1, H, W]`. Boxes of bytes with four or more dimensions are
      unchanged.
    * Other Boxes of integers or bools become float32, those of floats are unchanged. A Box of shape (), a number,
      becomes a vector of length 1.
    * Each part of a Dict is converted in this way, unless its one-hot vector would be longer than 65,536. The part
      `action_mask` says which actions are allowed, see `masks.mask_side`. Where several agents act, the rows of
      `agent_state` and of a `global_state` `[M, G]` are converted, each as one observation.

    `note` is a message for the user about the conversion; empty if none is necessary.
    """

    def __init__(self, env: gymnasium.Env, layout: str = "") -> None:
        super().__init__(env)
        side = observation_side(env.observation_space, layout, env.action_space)
        self.observation_space, self._convert, self.note = side

    @classmethod
    def wrap(cls, env: gymnasium.Env, layout: str = "") -> gymnasium.Env:
        """Return the wrapped environment, or the environment itself if nothing has to be converted."""
        wrapped = cls(env, layout)
        return env if wrapped.observation_space is env.observation_space else wrapped

    def observation(self, observation: Any) -> Any:
        return self._convert(observation)


def observation_side(
    space: gymnasium.Space[Any], layout: str = "", actions: gymnasium.Space[Any] | None = None
) -> Side:
    """Return what `PolicyObservations` makes of a space.

    The space of the environment's actions determines the form of a mask, and whether there are several agents.
    """
    _check_supported(space)
    if isinstance(space, Box):
        return _box_side(space, layout)
    if isinstance(space, Dict):
        return _dict_side(space, layout, actions)
    if flatdim(space) > LONGEST:
        raise ConfigError(
            f"The environment's observations are {space}, which would be a one-hot vector of {flatdim(space)} numbers: "
            f"expected at most {LONGEST}; wrap the environment."
        )
    vector = Box(0, 1, (flatdim(space),), np.float32)
    return vector, lambda obs: _flatten(space, np.asarray(obs)), ""


def observation_forms(
    space: gymnasium.Space[Any],
    env_space: gymnasium.Space[Any] | None,
    layout: str = "",
    actions: gymnasium.Space[Any] | None = None,
) -> list[tuple[gymnasium.Space[Any], Callable[[Any], Any]]]:
    """Return the spaces in which a policy's observations may be given, each with a function that converts a batch.

    These are the policy's space and the environment's; the likelier one comes first. It is the environment's if the
    conversion makes floats of integers, because floats do not fit it then.
    """
    own: tuple[gymnasium.Space[Any], Callable[[Any], Any]] = (space, lambda batch: batch)
    if env_space is None or env_space == space:
        return [own]
    side, convert, _ = observation_side(env_space, layout, actions)
    if side != space:  # the environment is not the one that was trained on
        return [own]
    kinds = [{path: part.dtype.kind for path, part in space_leaves(each)} for each in (env_space, space)]
    counted = any(kinds[1][path] == "f" != kind for path, kind in kinds[0].items())
    return [(env_space, convert), own] if counted else [own, (env_space, convert)]


def space_leaves(space: gymnasium.Space[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the spaces of arrays in a space of observations, with their dotted keys."""
    return dotted_items(space if isinstance(space, Dict) else {"": space})


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


def _dict_side(space: Dict, layout: str, actions: gymnasium.Space[Any] | None) -> Side:
    small = {key: part for key, part in space.items() if isinstance(part, Box | Dict) or flatdim(part) <= LONGEST}
    agents = count_agents(space, ActionUnits(actions).space) if actions is not None else 0
    sides = {
        key: _rows_side(part, layout) if agents and _is_of_each(key, part, agents) else observation_side(part, layout)
        for key, part in small.items()
        if key != MASK
    }
    if MASK in space.spaces:
        sides[MASK] = (*mask_side(space[MASK], actions), "")
    changed = {key: convert for key, (part, convert, _) in sides.items() if part is not space[key]}
    notes = " ".join(f"'{key}': {note}" for key, (_, _, note) in sides.items() if note)
    if not changed:
        return space, lambda obs: obs, notes
    parts = Dict({**space.spaces, **{key: part for key, (part, _, _) in sides.items()}})
    return parts, lambda obs: {**obs, **{key: fn(obs[key]) for key, fn in changed.items()}}, notes


def count_agents(space: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> int:
    """Return M, the number of agents of these observations and a policy's actions, see docs/agents.md; 0: only one."""
    if not isinstance(space, Dict) or STATE not in space.spaces:
        return 0
    if isinstance(actions, MultiDiscrete):
        of_each = actions.nvec.reshape(-1, 1)
    elif isinstance(actions, Box) and len(actions.shape) == 2:
        of_each = np.concatenate([actions.low, actions.high], 1)
    else:
        return 0
    agrees = list(space[STATE].shape or ())[:1] == [len(of_each)] and (of_each == of_each[0]).all()
    return len(of_each) if agrees else 0


def _is_of_each(key: str, part: gymnasium.Space[Any], agents: int) -> bool:
    """Return whether a part of observations has a row for each of several agents."""
    shape = part.shape or ()
    if key == STATE:  # one number for each may be an observation of a single agent
        return len(shape) > 1 or not isinstance(part, Box)
    return key == GLOBAL and len(shape) == 2 and shape[0] == agents


def _rows_side(space: Any, layout: str) -> Side:
    """Return what `observation_side` does for an array with a row for each agent; a row is one observation."""
    shape = space.shape[1:]
    one: gymnasium.Space[Any]
    if isinstance(space, MultiDiscrete):  # agents with fewer choices get as many as the others
        low, high = space.start.min(0), (space.start + space.nvec).max(0)
        one = MultiDiscrete(high - low, start=low) if shape else Discrete(int(high - low), start=int(low))
    elif isinstance(space, MultiBinary):
        one = MultiBinary(shape) if shape else Box(0, 1, (), np.int8)
    else:
        one = Box(space.low.min(0), space.high.max(0), shape, space.dtype.type)
    side, convert, note = observation_side(one, layout)
    return (space if side is one else batch_space(side, space.shape[0])), convert, note


def _check_supported(space: gymnasium.Space[Any]) -> None:
    if isinstance(space, Dict):
        if not space.spaces:
            raise ConfigError("The environment's observations have an empty Dict, Dict(): leave it out of the space.")
        for key, part in space.items():
            if not isinstance(key, str):
                raise ConfigError(
                    f"The environment's observations are a Dict with the key {key!r}: expected strings, rename it, for "
                    "instance with gymnasium.wrappers.TransformObservation."
                )
            _check_supported(part)
    elif not isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
        raise ConfigError(
            f"The environment's observations are {space}: expected Box, Discrete, MultiDiscrete, MultiBinary, or a "
            "Dict of these: wrap the environment, for instance in gymnasium.wrappers.FlattenObservation."
        )


def _box_side(space: Box, layout: str) -> Side:
    shape, dtype, note = space.shape, np.dtype(space.dtype), ""
    arrange: Callable[[np.ndarray], np.ndarray] | None = None
    if not shape:
        arrange = lambda obs: obs[..., None]  # noqa: E731
    elif len(shape) == 3:
        found = layout or find_layout(shape)
        if found == "channels_last":
            arrange = lambda obs: np.moveaxis(obs, -1, -3)  # noqa: E731
        order = "height, width, channels" if arrange else "channels, height, width"
        note = "" if layout else f"observations {list(shape)} are images in the order {order}"
    elif len(shape) == 2 and dtype == np.uint8:
        arrange = lambda obs: obs[..., None, :, :]  # noqa: E731
        note = f"observations {list(shape)} are grey images"
    target = _network_type(space)
    if arrange is None and target == dtype:
        return space, lambda obs: obs, f"{note}." if note else ""
    arrange = arrange or (lambda obs: obs)
    low, high = (arrange(end).astype(target) for end in (space.low, space.high))
    side: Box = Box(low, high, dtype=target.type)
    seen = f"{note}: the policy sees them as {list(side.shape)}, channels first." if note else ""
    return side, lambda obs: arrange(np.asarray(obs)).astype(target, copy=False), seen


def _network_type(space: Box) -> np.dtype[Any]:
    """Return the type in which a network gets the numbers of a Box."""
    dtype, dims = np.dtype(space.dtype), len(space.shape)
    if dtype.kind == "f" or (dtype == np.uint8 and dims > 1):
        return dtype
    is_image = dims == 3 and dtype.kind in "iu" and space.low.min() >= 0 and space.high.max() <= 255
    return np.dtype(np.uint8 if is_image else np.float32)


def find_layout(shape: Sequence[int]) -> str:
    """Return the layout of images of this shape, 'channels_first' or 'channels_last'.

    The last dimension holds the channels if it is 1, 3 or 4 and both others are larger than 4. Otherwise the first one
    holds them, if it is the smallest.
    """
    if shape[2] in CHANNELS and min(shape[:2]) > max(CHANNELS):
        return "channels_last"
    if shape[0] < min(shape[1:]):
        return "channels_first"
    raise ConfigError(
        f"The environment's observations of shape {list(shape)} do not show which dimension holds the channels: set "
        "env.image_layout to 'channels_last', or to 'channels_first', which leaves their order as it is."
    )


class FrameStack(gymnasium.ObservationWrapper):
    """Stacks copies of the newest frames of one environment, which may reuse their memory."""

    def __init__(self, env: gymnasium.Env, depth: int) -> None:
        super().__init__(env)
        self.observation_space, self._depth = stack_space(env.observation_space, depth), depth
        self._stack: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._stack = None
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
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
        return np.concatenate([*[np.zeros_like(newest)] * (depth - 1), newest], axis)

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


SPACES = {cls.__name__: cls for cls in (Discrete, MultiDiscrete, MultiBinary)}
SAVED = ("observation_space", "env_action_space", "env_observation_space")


def spec_state(spec: EnvSpec) -> dict[str, Any]:
    """Return the spaces of a spec as numbers, texts, lists and dicts; empty if a space is of another kind."""
    spaces = {name: getattr(spec, name) for name in SAVED}
    try:
        state = {name: space and _space_state(space) for name, space in spaces.items()}
    except TypeError:
        return {}
    return {**state, "frame_stack": spec.frame_stack}


def load_spec(state: dict[str, Any], act_scale: bool) -> EnvSpec | None:
    """Return the spec of a state that `spec_state` returned; None if that is empty."""
    if not state:
        return None
    observation, action, plain = (state[name] and _build_space(state[name]) for name in SAVED)
    return EnvSpec(observation, ActionUnits(action, act_scale).space, state["frame_stack"], (), action, plain)


def _space_state(space: gymnasium.Space[Any]) -> dict[str, Any]:
    if isinstance(space, Dict):
        return {"parts": {key: _space_state(part) for key, part in space.items()}}
    if isinstance(space, Box):
        ends = {"low": _number_or_list(space.low), "high": _number_or_list(space.high)}
        return {"kind": "Box", **ends, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, MultiBinary):
        return {"kind": "MultiBinary", "n": list(space.shape)}
    raise TypeError(f"{space} has no description")


def _build_space(state: dict[str, Any]) -> gymnasium.Space[Any]:
    if "parts" in state:
        return Dict({key: _build_space(part) for key, part in state["parts"].items()})
    if state["kind"] == "Box":
        shape, dtype = tuple(state["shape"]), np.dtype(state["dtype"])
        low, high = (np.broadcast_to(np.asarray(state[end], dtype), shape) for end in ("low", "high"))
        return Box(low, high, dtype=dtype.type)
    return SPACES[state["kind"]](**{key: value for key, value in state.items() if key != "kind"})


def _number_or_list(bound: np.ndarray) -> Any:
    """Return one number if all are equal, as those of an image are."""
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound.tolist()
