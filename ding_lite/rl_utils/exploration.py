"""Exploration schedules and epsilon-greedy action choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def get_epsilon_greedy_fn(start: float, end: float, decay: int, type_: str = "exp") -> Callable[[int], float]:
    """Return epsilon as a function of the global environment step.

    Args:
        start: epsilon at step 0.
        end: limit or final value of epsilon.
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


def epsilon_greedy(
    logit_NA: Tensor, epsilon: float, mask_NA: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Choose the greedy action, or with probability epsilon a uniform one, drawn independently for each row.

    Args:
        logit_NA: action values `[N, A]`, or `[N, M, A]` of M agents, each of which is a row.
        epsilon: probability, in [0, 1].
        mask_NA: as `logit_NA`, true for the actions that are allowed, at least one in each row; None: all are.
        generator: of the random numbers, on the device of `logit_NA`; None: torch's own.

    Returns:
        Actions `[N]`, or `[N, M]`, int64.
    """
    if mask_NA is not None:
        logit_NA = logit_NA.masked_fill(~mask_NA.bool(), -torch.inf)
    action_N = logit_NA.argmax(dim=-1)
    if epsilon <= 0.0:
        return action_N
    options: dict[str, Any] = {"device": action_N.device, "generator": generator}
    if mask_NA is None:
        random_N = torch.randint(logit_NA.shape[-1], action_N.shape, **options)
    else:  # the argmax of random numbers of the allowed actions
        number_NA = torch.rand(logit_NA.shape, dtype=logit_NA.dtype, **options)
        random_N = number_NA.masked_fill(~mask_NA.bool(), -1.0).argmax(dim=-1)
    explore_N = torch.rand(action_N.shape, **options) < epsilon
    return torch.where(explore_N, random_N, action_N)
