"""Mirror images of observations and actions, for `policy.symmetry`. Observations may be None."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def cartpole(obs: Tensor | None, action: Tensor) -> tuple[Any, Tensor]:
    """Return the negative positions, angles and speeds `[B, 4]`, and pushes `[B]` in the other direction."""
    return None if obs is None else -obs, 1 - action


def pendulum(obs: Tensor | None, action: Tensor) -> tuple[Any, Tensor]:
    """Return cos, sin and speed `[B, 3]` of the negative angle, and negative torques `[B, 1]`."""
    return None if obs is None else obs * obs.new_tensor([1, -1, -1]), -action
