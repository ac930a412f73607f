"""Describes an environment's spaces by plain values, so that a checkpoint holds all that its policy needs to act.

This module never imports torch, because it belongs to `envs`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.spaces import EnvSpec

SPACES = {cls.__name__: cls for cls in (Box, Discrete, MultiDiscrete, MultiBinary)}


def spec_state(spec: EnvSpec) -> dict[str, Any]:
    """Return the spaces of a spec as numbers, texts, lists and dicts; empty if a space is of another kind."""
    spaces = {
        "observation_space": spec.observation_space,
        "env_action_space": spec.env_action_space,
        "env_observation_space": spec.env_observation_space,
    }
    try:
        state = {name: space and _space_state(space) for name, space in spaces.items()}
    except TypeError:
        return {}
    return {**state, "frame_stack": spec.frame_stack}


def load_spec(state: dict[str, Any], act_scale: bool) -> EnvSpec | None:
    """Return the spec of a state that `spec_state` returned; None if that is empty.

    Args:
        state: the state.
        act_scale: `env.act_scale` of the run.
    """
    if not state:
        return None
    names = ("observation_space", "env_action_space", "env_observation_space")
    observation, action, plain = (state[name] and _build_space(state[name]) for name in names)
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
    options = {key: value for key, value in state.items() if key != "kind"}
    if state["kind"] == "Box":
        shape, dtype = tuple(state["shape"]), np.dtype(state["dtype"])
        ends = {end: np.broadcast_to(np.asarray(state[end], dtype), shape) for end in ("low", "high")}
        options = {**ends, "dtype": dtype.type}
    return SPACES[state["kind"]](**options)


def _number_or_list(bound: np.ndarray) -> Any:
    """Return one number if all are equal, as those of an image are."""
    return bound.flat[0].item() if bound.size and (bound == bound.flat[0]).all() else bound.tolist()
