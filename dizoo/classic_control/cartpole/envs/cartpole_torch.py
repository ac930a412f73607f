"""CartPole as a torch program."""

from __future__ import annotations

import math

import torch
from gymnasium.envs.classic_control import CartPoleEnv
from torch import Tensor

from dizoo.classic_control.torch_env import TorchVectorEnv

GRAVITY = 9.8  # m/s^2
POLE_MASS = 0.1  # kg
TOTAL_MASS = 1.1  # kg, of cart and pole
HALF_LENGTH = 0.5  # m, of the pole
POLE_SHARE = POLE_MASS * HALF_LENGTH / TOTAL_MASS  # m
PUSH = 10.0 / TOTAL_MASS  # m/s^2
TIME_STEP = 0.02  # s
MAX_POSITION = 2.4  # m
MAX_ANGLE = 12 * math.pi / 180  # rad


class CartPoleTorch(TorchVectorEnv):
    """gymnasium's CartPole: a state is x, its speed, the pole's angle and its speed (Barto, Sutton, Anderson 1983).

    With the mass ratio mu, half the length l and the force F over the total mass M:
    p = F / M + mu l omega^2 sin(theta), alpha = (g sin(theta) - p cos(theta)) / (l (4/3 - mu cos^2(theta))),
    a = p - mu l alpha cos(theta), and an Euler step.
    """

    original = CartPoleEnv
    time_limit = 500

    def _initial(self) -> Tensor:
        return self._uniform(-0.05, 0.05, rows=4)

    def _advance(self, state: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, v, theta, omega = state.unbind()
        sin, cos = theta.sin(), theta.cos()
        p = torch.addcmul(actions * (2 * PUSH) - PUSH, omega * omega, sin, value=POLE_SHARE)
        inertia = torch.rsub(cos * cos, HALF_LENGTH * 4 / 3, alpha=POLE_SHARE)
        alpha = torch.addcmul(GRAVITY * sin, p, cos, value=-1) / inertia
        a = torch.addcmul(p, alpha, cos, value=-POLE_SHARE)
        state = torch.add(state, torch.stack((v, a, omega, alpha)), alpha=TIME_STEP)
        x, _, theta, _ = state.unbind()
        terminated = (x.abs() > MAX_POSITION) | (theta.abs() > MAX_ANGLE)
        if self.kwargs.get("sutton_barto_reward"):
            return state, -terminated.to(self.dtype), terminated
        return state, torch.ones_like(v), terminated

    def _observe(self, state: Tensor) -> Tensor:
        return state.t().clone()
