"""Checks what environments return against their spaces, and casts values that fit.

NumPy would spread one number over a row, wrap 300 around to 44 in bytes, and turn None into NaN. Here such a value ends
the run. A value fits if its shape is that of the space and its type can hold it: int64 in a space of bytes, float64 in
one of float32. Spaces of integers also limit the values, except a Box of bytes, which would take long to look through.
The bounds of a Box of floats do not, because many environments exceed theirs slightly.

N is the number of environments.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from ding_lite.envs.actions import bounds_of
from ding_lite.utils.key import show_value
from ding_lite.utils.registry import UserError

OLD_INTERFACE = (
    "Port an environment that is written for gym before 0.26 to gymnasium, whose reset(seed=, options=) returns "
    "(obs, info) and step (obs, reward, terminated, truncated, info)"
)
USUAL = (float, bool, bool)  # types of reward, terminated and truncated that need no check


class EnvError(UserError, RuntimeError):
    """An environment failed during a run."""


def fit(obs: Any, space: gymnasium.Space[Any], where: str, batch: tuple[int, ...] = ()) -> Any:
    """Return an observation, or a batch of them, in the type that its space declares; a copy only if it has another.

    Args:
        obs: what an environment returned.
        space: of one environment.
        where: the beginning of messages: the environment, and what it returned.
        batch: (N,) for a batch `[N, ...]`, whose floats must also be finite. Empty for one observation.

    Raises:
        EnvError: a value does not fit.
    """
    if isinstance(space, Box):
        if type(obs) is not np.ndarray or (obs.dtype, obs.shape) != plain_array(space, *batch):
            obs = _cast(obs, space, where, batch)
        if batch and space.dtype.kind == "f":
            check_finite(obs, where, space)
        return obs
    if isinstance(space, Dict):
        if not isinstance(obs, dict) or obs.keys() != space.spaces.keys():
            keys = f"the keys {sorted(map(str, obs))}" if isinstance(obs, dict) else f"type {type(obs).__name__}"
            wanted = sorted(map(str, space.spaces))
            raise EnvError(f"{where} with {keys}, but the space is a Dict with the keys {wanted}.")
        return {key: fit(obs[key], part, f"{where}[{key!r}]", batch) for key, part in space.spaces.items()}
    exact = not batch and (type(obs) in (int, str) or getattr(obs, "dtype", None) == space.dtype)
    return obs if exact and space.contains(obs) else _cast(obs, space, where, batch)


def plain_array(space: gymnasium.Space[Any], *batch: int) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return type and shape of a space's arrays if their values need no check, as those of floats and bytes."""
    if isinstance(space, Box) and (space.dtype.kind == "f" or space.dtype.itemsize == 1):
        return space.dtype, batch + space.shape
    return None


def _cast(obs: Any, space: gymnasium.Space[Any], where: str, batch: tuple[int, ...]) -> np.ndarray:
    array, shape = to_array(obs), batch + (space.shape or ())
    if array.dtype.kind not in "biuf":
        raise EnvError(f"{where} = {_show(obs)} of type {type(obs).__name__}, expected numbers of the space {space}.")
    if array.shape != shape:
        raise EnvError(f"{where} = {_show(obs)} of shape {array.shape}, expected {shape} of its space {space}.")
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(space.dtype, copy=False)
    if cast.dtype.kind == "f":  # floats may lose digits
        return cast
    wrong = cast != array
    if cast.dtype.itemsize > 1 or not isinstance(space, Box):
        low, high = bounds_of(space)  # type: ignore[arg-type]  # other spaces were refused
        wrong = wrong | (cast < low) | (cast > high)
    if wrong.any():
        raise EnvError(f"{where} with the value {array[wrong].flat[0]!s} ({array.dtype}), not in its space {space}.")
    return cast


def check_finite(numbers: np.ndarray, where: str, space: gymnasium.Space[Any] | None = None) -> None:
    """Raise `EnvError` if one of these floats `[N, ...]` is NaN or infinite."""
    finite = np.isfinite(numbers)
    if not finite.all():
        first = tuple(np.argwhere(~finite)[0].tolist())
        finite = f"finite numbers of the space {space}" if space else "finite numbers"
        raise EnvError(f"{where} with {numbers[first]!s} in environment {first[0]}, expected {finite}.")


def malformed(result: Any, expected: str, where: str) -> EnvError:
    """Return the error for a `reset` or a `step`, which `where` names, that did not return a tuple of its values."""
    kinds = [type(part).__name__ for part in result] if isinstance(result, tuple) else []
    got = f"{len(kinds)} values ({', '.join(kinds)})" if kinds else f"a {type(result).__name__}"
    return EnvError(f"{where} returned {got}, expected {expected}. {OLD_INTERFACE}.")


def check_step(reward: Any, terminated: Any, truncated: Any, info: Any, where: str) -> tuple[float, bool, bool]:
    """Return reward, terminated and truncated of a step in the types that gymnasium's interface declares.

    Raises:
        EnvError: they are not one number and two truth values, or `info` is not a dict.
    """
    if not isinstance(reward, float):
        reward = float(_number(reward, f"{where}: step returned the reward", "one number: return float(reward)"))
    terminated = _flag(terminated, f"{where}: step returned terminated")
    truncated = _flag(truncated, f"{where}: step returned truncated")
    if not isinstance(info, dict):
        raise EnvError(f"{where}: step returned info = {_show(info)}, expected a dict.")
    return reward, terminated, truncated


def _flag(value: Any, where: str) -> bool:
    if type(value) is bool or type(value) is np.bool_:
        return bool(value)
    number = _number(value, where, "True or False")
    if number not in (0, 1):
        raise EnvError(f"{where} = {_show(value)}, expected True or False.")
    return bool(number)


def _number(value: Any, where: str, expected: str) -> Any:
    array = to_array(value)
    if array.shape != () or array.dtype.kind not in "biuf":
        shape = f" of shape {array.shape}" if array.shape else ""
        raise EnvError(f"{where} = {_show(value)}{shape}, expected {expected}.")
    return array[()]


def to_array(value: Any) -> np.ndarray:
    """Return a value as an array; an array of None, which holds no numbers, if it cannot be one."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths; a tensor on a GPU or with a gradient
        return np.asarray(None)


def _show(value: Any) -> str:
    return " ".join(show_value(value).split())
