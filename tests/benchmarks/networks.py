"""The networks of the tasks in plain PyTorch: the same function for every library."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from tests.benchmarks.settings import TASKS


def trunk(task_name: str, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """``[B, 4]``, or ``[B, 4, 84, 84]`` of pixels from 0 to 1, to ``[B, H]``, H the last of the task's hidden sizes."""
    task, layers = TASKS[task_name], list[nn.Module]()
    if task.pong:
        one, two, three, dense = task.hidden
        layers += [nn.Conv2d(4, one, 8, 4), activation(), nn.Conv2d(one, two, 4, 2), activation()]
        layers += [nn.Conv2d(two, three, 3, 1), activation(), nn.Flatten(), nn.Linear(49 * three, dense), activation()]
    else:
        for before, after in pairwise((4, *task.hidden)):
            layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers)


def q_body(task_name: str) -> nn.Sequential:
    """Q-network: ``[B, 4] -> [B, 2]`` for CartPole, ``[B, 4, 84, 84] -> [B, 6]`` for Pong."""
    return nn.Sequential(*trunk(task_name), action_layer(task_name))


def action_layer(task_name: str) -> nn.Linear:
    """The last layer of what has an output for each action."""
    return nn.Linear(TASKS[task_name].hidden[-1], 6 if TASKS[task_name].pong else 2)


def scaled(obs: torch.Tensor) -> torch.Tensor:
    """Bytes as floats from 0 to 1."""
    return obs.float() / 255 if obs.dtype == torch.uint8 else obs


class LogitNetwork(nn.Module):
    """A Q-network that answers ``{"logit": q}``, as DI-engine and ding_lite expect."""

    def __init__(self, task_name: str) -> None:
        super().__init__()
        self.body = q_body(task_name)

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Q-values of every action; bytes are scaled to 0 to 1."""
        return {"logit": self.body(scaled(obs))}


class ActorCriticNetwork(nn.Module):
    """Policy and value: on one trunk for Pong, on two (tanh) for CartPole."""

    def __init__(self, task_name: str) -> None:
        super().__init__()
        self.shared = TASKS[task_name].pong
        self.actor_trunk = trunk(task_name, nn.ReLU if self.shared else nn.Tanh)
        self.critic_trunk = self.actor_trunk if self.shared else trunk(task_name, nn.Tanh)
        self.actor, self.critic = action_layer(task_name), nn.Linear(TASKS[task_name].hidden[-1], 1)

    def forward(self, obs: torch.Tensor, mode: str = "compute_actor_critic") -> dict[str, torch.Tensor]:
        """Logits ``[B, A]`` and value ``[B]``, whatever the mode: only evaluation, not timed, asks for less."""
        obs = scaled(obs)
        features = self.actor_trunk(obs)
        value = self.critic(features if self.shared else self.critic_trunk(obs))
        return {"logit": self.actor(features), "value": value.squeeze(-1)}


def count_parameters(module: nn.Module) -> int:
    """Trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
