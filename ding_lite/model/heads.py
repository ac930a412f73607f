"""Heads that turn features into the values of discrete actions.

Shapes: B samples, A discrete actions.
"""

from __future__ import annotations

from torch import Tensor, nn

from ding_lite.model.mlp import MLP
from ding_lite.model.noisy import NoisyLinear


class DiscreteHead(MLP):
    """Features `[B, hidden_size]` to action values `[B, A]`, through `layer_num` hidden layers."""

    def __init__(
        self, hidden_size: int, output_size: int, layer_num: int = 1, activation: str = "relu", noise: bool = False
    ) -> None:
        linear = NoisyLinear if noise else nn.Linear
        super().__init__([hidden_size] * (layer_num + 1) + [output_size], activation, output=True, linear=linear)


class DuelingHead(nn.Module):
    """Action values from a state value and advantages.

    Q = V + A - mean(A) (Wang et al. 2016, arXiv:1511.06581, eq. 9).
    """

    def __init__(
        self, hidden_size: int, output_size: int, layer_num: int = 1, activation: str = "relu", noise: bool = False
    ) -> None:
        super().__init__()
        self.A = DiscreteHead(hidden_size, output_size, layer_num, activation, noise)
        self.V = DiscreteHead(hidden_size, 1, layer_num, activation, noise)

    def forward(self, x: Tensor) -> Tensor:
        advantage_BA = self.A(x)
        return self.V(x) + advantage_BA - advantage_BA.mean(dim=-1, keepdim=True)
