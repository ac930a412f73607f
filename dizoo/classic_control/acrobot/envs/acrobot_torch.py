"""Acrobot as a torch program."""

from __future__ import annotations

import math

import torch
from gymnasium.envs.classic_control import AcrobotEnv
from torch import Tensor

from dizoo.classic_control.torch_env import TorchVectorEnv

GRAVITY = 9.8  # m/s^2
TIME_STEP = 0.2  # s
MAX_SPEEDS = (4 * math.pi, 9 * math.pi)  # rad/s


class AcrobotTorch(TorchVectorEnv):
    """gymnasium's Acrobot: a state is the angles of both links, 0 hanging and within -pi..pi, and their speeds.

    The equations are those of Sutton and Barto's book, where both links have a length of 1 m, a mass of 1 kg at the
    middle and an inertia of 1 kg m^2. A step is one of Runge and Kutta's fourth order.
    """

    original = AcrobotEnv
    time_limit = 500

    def _initial(self) -> Tensor:
        return self._uniform(-0.1, 0.1, rows=4)

    def _advance(self, state: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        torque = actions - 1
        k1 = self._derivative(state, torque)
        k2 = self._derivative(torch.add(state, k1, alpha=TIME_STEP / 2), torque)
        k3 = self._derivative(torch.add(state, k2, alpha=TIME_STEP / 2), torque)
        k4 = self._derivative(torch.add(state, k3, alpha=TIME_STEP), torque)
        state = torch.add(state, k1 + 2 * (k2 + k3) + k4, alpha=TIME_STEP / 6)
        angles = torch.remainder(state[:2] + math.pi, 2 * math.pi) - math.pi
        omega1, omega2 = (row.clamp(-limit, limit) for row, limit in zip(state[2:], MAX_SPEEDS, strict=True))
        terminated = angles[0].cos() + angles.sum(0).cos() < -1
        return torch.cat((angles, torch.stack((omega1, omega2)))), terminated.to(self.dtype) - 1, terminated

    def _observe(self, state: Tensor) -> Tensor:
        angles, speeds = state.split(2)
        cos_and_sin = torch.stack((angles.cos(), angles.sin()), dim=1).flatten(0, 1)
        return torch.cat((cos_and_sin, speeds)).t()

    @staticmethod
    def _derivative(state: Tensor, torque: Tensor) -> Tensor:
        """Return the speeds and accelerations of both links, `[4, N]`; d and phi are named as in the book."""
        theta1, theta2, omega1, omega2 = state.unbind()
        sin2, d1 = theta2.sin() / 2, theta2.cos() + 3.5
        d2 = d1 / 2 - 0.5
        phi2 = GRAVITY / 2 * (theta1 + theta2).sin()
        phi1 = phi2 + 1.5 * GRAVITY * theta1.sin() - sin2 * omega2 * (omega2 + 2 * omega1)
        ratio = d2 / d1
        alpha2 = (torque + ratio * phi1 - sin2 * omega1 * omega1 - phi2) / (1.25 - ratio * d2)
        return torch.stack((omega1, omega2, -(ratio * alpha2 + phi1 / d1), alpha2))
