"""Pendulum as a torch program."""

from __future__ import annotations

import math

import torch
from gymnasium.envs.classic_control import PendulumEnv
from torch import Tensor

from dizoo.classic_control.torch_env import TorchVectorEnv

GRAVITY = 10.0  # m/s^2; the pendulum has a mass of 1 kg and a length of 1 m
MAX_TORQUE = 2.0  # N m
MAX_SPEED = 8.0  # rad/s
TIME_STEP = 0.05  # s
MAX_ANGLE = 32 * math.pi  # rad, of the state; an episode of 200 steps stays below 84, one without a limit does not


class PendulumTorch(TorchVectorEnv):
    """gymnasium's Pendulum: a state is the angle, 0 upright, and its speed.

    omega' = omega + (3/2 g sin(theta) + 3 u) dt, within -8..8, theta' = theta + omega' dt; the reward is
    -(theta^2 + 0.1 omega^2 + 0.001 u^2), of the state before the step, with theta within -pi..pi. As in gymnasium, the
    angle counts turns, but at most 16. Images are without the arrow of the torque.
    """

    original = PendulumEnv
    time_limit = 200
    fixed = {"continuous": True}

    def _initial(self) -> Tensor:
        return torch.cat((self._uniform(-math.pi, math.pi), self._uniform(-1, 1)))

    def _advance(self, state: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        theta, omega = state.unbind()
        u = actions.squeeze(1).clamp(-MAX_TORQUE, MAX_TORQUE)
        angle = torch.remainder(theta + math.pi, 2 * math.pi) - math.pi
        reward = -(angle.square() + 0.1 * omega.square() + 0.001 * u.square())
        gravity = 1.5 * self.kwargs.get("g", GRAVITY)
        omega = (omega + (gravity * theta.sin() + 3 * u) * TIME_STEP).clamp(-MAX_SPEED, MAX_SPEED)
        theta = torch.fmod(theta + omega * TIME_STEP, MAX_ANGLE)
        return torch.stack((theta, omega)), reward, torch.zeros_like(theta, dtype=torch.bool)

    def _observe(self, state: Tensor) -> Tensor:
        theta, omega = state.unbind()
        return torch.stack((theta.cos(), theta.sin(), omega)).t()
