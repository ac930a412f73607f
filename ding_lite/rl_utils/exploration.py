"""Exploration schedules and epsilon-greedy action choice."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def get_epsilon_greedy_fn(start: float, end: float, decay: int, type_: str = "exp") -> Callable[[int], float]:
    """Return epsilon as a function of the global environment step.

    Args:
        start: epsilon at step 0.
        end: epsilon that it falls to.
        decay: env steps; the whole fall for 'linear', the time constant for 'exp'.
        type_: 'linear' or 'exp'.
    """
    if type_ not in ("linear", "exp"):
        raise ValueError(f"epsilon schedule must be 'linear' or 'exp', got '{type_}'")
    if decay <= 0:
        raise ValueError(f"epsilon decay must be a positive number of env steps, got {decay}")
    if type_ == "linear":
        return lambda step: start + (end - start) * min(max(step, 0) / decay, 1.0)
    return lambda step: end + (start - end) * math.exp(-max(step, 0) / decay)


def epsilon_greedy(logit_NA: Tensor, epsilon: float) -> Tensor:
    """Choose the greedy action, or with probability epsilon a uniform one, drawn for each row on its own.

    Args:
        logit_NA: action values `[N, A]`.
        epsilon: probability, in [0, 1].

    Returns:
        Actions `[N]`, int64.
    """
    action_N = logit_NA.argmax(dim=-1)
    if epsilon <= 0.0:
        return action_N
    random_N = torch.randint(logit_NA.shape[-1], action_N.shape, device=action_N.device)
    explore_N = torch.rand(action_N.shape, device=action_N.device) < epsilon
    return torch.where(explore_N, random_N, action_N)
