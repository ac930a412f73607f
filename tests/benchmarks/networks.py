"""The networks of the tasks in plain PyTorch: the same function for every library."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


def q_body(task_name: str) -> nn.Sequential:
    """Q-network: ``[B, 4] -> [B, 2]`` for CartPole, ``[B, 4, 84, 84] -> [B, 6]`` for Pong, whose pixels are 0 to 1."""
    if task_name == "cartpole_dqn":
        widths = [4, 128, 128, 64]
        hidden: list[nn.Module] = []
        for before, after in pairwise(widths):
            hidden += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(widths[-1], 2))
    return nn.Sequential(
        *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)),
    )


class LogitNetwork(nn.Module):
    """A Q-network that answers ``{"logit": q}``, as DI-engine and ding_lite expect."""

    def __init__(self, task_name: str) -> None:
        super().__init__()
        self.body = q_body(task_name)

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Q-values of every action; bytes are scaled to 0 to 1."""
        return {"logit": self.body(obs.float() / 255 if obs.dtype == torch.uint8 else obs)}


def count_parameters(module: nn.Module) -> int:
    """Trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
