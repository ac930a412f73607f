"""Masks of actions: the form in which policies see them, and a wrapper for environments that give them elsewhere.

Shapes: A discrete actions or options of the largest branch, D branches of a multi-discrete action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete

from ding_lite.envs.returned import EnvError, to_array
from ding_lite.utils.key import show_value
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.tree import MASK

WRAPPER = "ding_lite.envs.masks:ActionMask"
CHOICES = (Discrete, MultiDiscrete, MultiBinary)  # actions that can have a mask


def find_mask_space(space: gymnasium.Space[Any]) -> gymnasium.Space[Any] | None:
    """Return the space of the `action_mask` in observations; None if they have none."""
    return space.spaces.get(MASK) if isinstance(space, Dict) else None


def read_mask(mask: Any, where: str) -> np.ndarray:
    """Return a mask, or a list of masks joined, as zeros and ones, int8: every number but 0 allows its action.

    Raises:
        EnvError: it does not consist of finite numbers; `where` begins the message.
    """
    parts = [to_array(part).ravel() for part in mask] if isinstance(mask, list | tuple) else []
    array = np.hstack(parts) if parts else to_array(mask)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise EnvError(
            f"{where} the {MASK} {show_value(mask)} ({array.dtype}), expected finite numbers: 0 forbids, others allow."
        )
    return (array != 0).astype(np.int8)


def check_choices(actions: gymnasium.Space[Any]) -> Any:
    """Return the space of actions that can have a mask; raise `ConfigError` if they cannot."""
    if not isinstance(actions, CHOICES):
        raise ConfigError(
            f"The observations have an action_mask, but the actions are {actions}: expected Discrete or MultiDiscrete "
            "actions, whose choices a mask allows: leave the mask out."
        )
    return actions


def mask_side(
    space: gymnasium.Space[Any], actions: gymnasium.Space[Any] | None
) -> tuple[gymnasium.Space[Any], Callable[[Any], Any]]:
    """Return the policy's space of an environment's mask, and a function that converts one mask or a batch of them.

    The mask of `Discrete` actions is `[A]`. That of `MultiDiscrete` and `MultiBinary` actions is `[D, A]`, with 0 for
    options that a branch lacks. The masks of all branches joined to a vector become such an array. Nothing changes if
    the space of the actions is unknown, None.

    Raises:
        ConfigError: the actions have no mask, or one of another shape.
    """
    if actions is None:
        return space, lambda mask: mask
    options_D = _options(check_choices(actions))
    shape = (len(options_D), max(options_D))
    if space.shape == ((actions.n,) if isinstance(actions, Discrete) else shape):
        return space, lambda mask: mask
    if isinstance(actions, Discrete) or space.shape != (sum(options_D),):
        joined = "" if isinstance(actions, Discrete) else f", or {list(shape)}"
        raise ConfigError(
            f"The observations' action_mask has the shape {list(space.shape or ())}: expected [{sum(options_D)}]"
            f"{joined}, a number for each action of {actions}."
        )
    exists_DA = np.arange(shape[1]) < np.array(options_D)[:, None]

    def convert(mask: np.ndarray) -> np.ndarray:
        padded = np.zeros((*mask.shape[:-1], *shape), np.int8)
        padded[..., exists_DA] = read_mask(mask, "The environment returned")
        return padded

    return MultiBinary(shape), convert


def allows_something(mask: Any, actions: gymnasium.Space[Any]) -> bool:
    """Return whether a mask, as its environment gives it, allows an action, and an option of each branch."""
    array = np.asarray(mask)
    if array.ndim == 1 and isinstance(actions, CHOICES):
        return all(part.any() for part in np.split(array, np.cumsum(_options(actions))[:-1]))
    return bool(array.any(-1).all())


def _options(actions: Discrete | MultiDiscrete | MultiBinary) -> list[int]:
    if isinstance(actions, Discrete):
        return [int(actions.n)]
    return actions.nvec.ravel().tolist() if isinstance(actions, MultiDiscrete) else [2] * int(np.prod(actions.shape))


class ActionMask(gymnasium.Wrapper):
    """Adds the mask to the observations of an environment that gives it by `action_masks()` or `info["action_mask"]`.

    An observation becomes a dict of `observation` and `action_mask`; a dict gets this key in addition. A list of masks
    is joined.

    In a config: `env.wrappers=["ding_lite.envs.masks:ActionMask"]`.

    Raises:
        ConfigError: the actions have no mask.
        EnvError: by `reset` and `step`, if the environment gives no mask.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, CHOICES):
            raise ConfigError(f"{WRAPPER}: expected Discrete or MultiDiscrete actions, got {env.action_space}.")
        space = env.observation_space
        parts = space.spaces if isinstance(space, Dict) else {"observation": space}
        self._size = sum(_options(env.action_space))
        self.observation_space = Dict({**parts, MASK: MultiBinary(self._size)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._join(obs, info, over=False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._join(obs, info, over=bool(terminated or truncated)), reward, terminated, truncated, info

    def _join(self, obs: Any, info: dict[str, Any], over: bool) -> dict[str, Any]:
        mask = info.get(MASK)
        if self.env.has_wrapper_attr("action_masks"):
            mask = self.env.get_wrapper_attr("action_masks")()
        if mask is None and not over:
            raise EnvError(f"{WRAPPER}: the environment has neither action_masks() nor info['{MASK}']: add one.")
        given = read_mask(np.zeros(self._size) if mask is None else mask, f"{WRAPPER}: the environment gave")
        return {**(obs if isinstance(obs, dict) else {"observation": obs}), MASK: given.ravel()}
