"""Mountain car as a torch program."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.envs.classic_control import MountainCarEnv
from torch import Tensor

from dizoo.classic_control.torch_env import TorchVectorEnv

FORCE = 0.001  # speed that the motor adds in one step
SLOPE = 0.0025  # largest speed that the slope adds in one step
MAX_SPEED = 0.07
LEFT, RIGHT, GOAL = -1.2, 0.6, 0.5  # positions


class MountainCarTorch(TorchVectorEnv):
    """gymnasium's mountain car: a state is the position and the speed (Moore 1990); the reward is always -1.

    v' = v + 0.001 (action - 1) - 0.0025 cos(3 x), within -0.07..0.07, x' = x + v'; a wall at the left stops the car.

    Args:
        num_envs: see the base class, as for those that follow.
        device: see there.
        dtype: see there.
        max_episode_steps: see there.
        scale_obs: whether observations are scaled to -1..1.
        kwargs: see there.
    """

    original = MountainCarEnv
    time_limit = 200

    def __init__(
        self,
        num_envs: int,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        max_episode_steps: int | None = None,
        scale_obs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_envs, device, dtype, max_episode_steps, **kwargs)
        self._scale_obs = scale_obs
        if scale_obs:
            self._set_spaces(-np.ones(2), np.ones(2))

    def _initial(self) -> Tensor:
        position = self._uniform(-0.6, -0.4)
        return torch.cat((position, torch.zeros_like(position)))

    def _advance(self, state: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, v = state.unbind()
        v = (v + FORCE * (actions - 1) - SLOPE * (3 * x).cos()).clamp(-MAX_SPEED, MAX_SPEED)
        x = (x + v).clamp(LEFT, RIGHT)
        v = v.masked_fill((x <= LEFT) & (v < 0), 0)
        terminated = (x >= GOAL) & (v >= self.kwargs.get("goal_velocity", 0))
        return torch.stack((x, v)), torch.full_like(x, -1), terminated

    def _observe(self, state: Tensor) -> Tensor:
        if not self._scale_obs:
            return state.t().clone()
        x, v = state.unbind()
        return torch.stack(((x - (LEFT + RIGHT) / 2) * (2 / (RIGHT - LEFT)), v / MAX_SPEED)).t()
