"""Finds out which imagined steps end an episode: `termination_fn` of the environment, or of any module.

It takes tensors on the policy's device by the names of its parameters, any of `obs` `[B, O]`, `action` `[B, D]` in the
policy's units (one-hot if discrete) and `next_obs` `[B, O]`, and returns a bool tensor `[B]`: whether the step is
terminal. Time limits are no ends.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ding_lite.envs.builders import build_single, find_builder
from ding_lite.run.setup import RunSetup
from ding_lite.utils.registry import ConfigError

KEY = "world_model.termination_fn"
INPUTS = ("obs", "action", "next_obs")
NO_FUNCTION = (
    "The environment has terminal states, and nothing says which imagined ones are: give its class a method "
    f"termination_fn(next_obs), name a function as {KEY}='module:function', or set policy.learn.ignore_done=True."
)


class Termination:
    """Says which steps are terminal.

    Attributes:
        function: what it asks; None: no step is terminal.
    """

    def __init__(self, setup: RunSetup, path: str) -> None:
        self.function: Callable[..., Tensor] | None
        if path:
            self.function = load_function(path)
        else:
            env = build_single(find_builder(setup.cfg.env, setup.builders[0]), setup.cfg.env)
            try:
                self.function = env.get_wrapper_attr("termination_fn")
            except AttributeError:
                self.function = None
            env.close()
        parameters = inspect.signature(self.function).parameters if self.function else ()
        self._names = [name for name in parameters if name in INPUTS]

    def __call__(self, **steps: Tensor) -> Tensor:
        """Return whether steps are terminal, bool `[..., B]`, for tensors `[..., B, *]` by the names of `INPUTS`."""
        next_obs = steps["next_obs"]
        if self.function is None:
            return torch.zeros(next_obs.shape[:-1], dtype=torch.bool, device=next_obs.device)
        with torch.no_grad():
            done = self.function(**{name: steps[name].flatten(0, -2) for name in self._names})
        if done.dtype != torch.bool or done.shape != (next_obs.shape[:-1].numel(),):
            expected = f"bool [{next_obs.shape[:-1].numel()}]"
            raise ConfigError(f"termination_fn: expected {expected}, got {done.dtype} {list(done.shape)}.")
        return done.view(next_obs.shape[:-1])


def load_function(path: str) -> Any:
    """Return the function of a path, 'module:function'."""
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{KEY}: expected 'module:function', got '{path}': {error}.") from error
