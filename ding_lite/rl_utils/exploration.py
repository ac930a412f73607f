"""Epsilon-greedy exploration: the schedule of epsilon and the choice of actions.

Shapes: N environments, M agents, A discrete actions.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def epsilon_at(step: int, start: float, end: float, decay: float, type: str = "exp") -> float:
    """Return epsilon at a global env step t.

    'linear': start + (end - start) min(t / decay, 1); 'exp': end + (start - end) exp(-t / decay).

    Raises:
        ValueError: `type` is unknown, or `decay` is not positive.
    """
    if type not in ("linear", "exp"):
        raise ValueError(f"epsilon schedule must be 'linear' or 'exp', got '{type}'")
    if decay <= 0:
        raise ValueError(f"epsilon decay must be a positive number of env steps, got {decay}")
    if type == "linear":
        return start + (end - start) * min(max(step, 0) / decay, 1.0)
    return end + (start - end) * math.exp(-max(step, 0) / decay)


def spread_epsilon(epsilon: float, spread: float, num_envs: int, first: int = 0, total: int = 0) -> float | Tensor:
    """Return an epsilon for each of N environments: epsilon^(1 + spread i / (N - 1)) for environment i.

    The first environment explores with epsilon and the last hardly at all, so that some play in many ways and others
    get far. Source: Horgan et al. 2018 (Ape-X), arXiv:1803.00933, section 4, with epsilon = 0.4 and spread = 7.

    The N environments may be some of `total`, over which epsilons are spread, beginning with number `first`; 0: they
    are all. Returns `epsilon` itself if all are the same.
    """
    total = total or num_envs
    if spread == 0.0 or total == 1:
        return epsilon
    return epsilon ** (1.0 + spread * torch.linspace(0.0, 1.0, total)[first : first + num_envs])


def family_weights(number: int, largest: float) -> Tensor:
    """Return how much each member of a family of N policies weighs intrinsic rewards, `[N]`, from 0 to `largest`.

    0 for i = 0, `largest` for i = N - 1, else largest sigmoid(10 (2 i - (N - 2)) / (N - 2)); a family of one explores.
    Source: Badia et al. 2020 (NGU), arXiv:2002.06038, appendix A.
    """
    index_N = torch.arange(number, dtype=torch.float64)
    weight_N = largest * torch.sigmoid(10.0 * (2.0 * index_N - (number - 2)) / max(number - 2, 1))
    weight_N[0], weight_N[-1] = 0.0, largest
    return weight_N.float()


def family_discounts(number: int, first: float, last: float) -> Tensor:
    """Return the discount of each member of a family of N policies, `[N]`: 1 - (1 - first)^(1 - x) (1 - last)^x.

    Here x = i / (N - 1). Source: as for `family_weights`.
    """
    share_N = torch.linspace(0.0, 1.0, number, dtype=torch.float64)
    return (1.0 - (1.0 - first) ** (1.0 - share_N) * (1.0 - last) ** share_N).float()


def epsilon_greedy(
    logit_NA: Tensor, epsilon: float | Tensor, mask_NA: Tensor | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Return the greedy action, or with probability epsilon a uniformly random one, independently for each row.

    An action whose value is -inf is forbidden, and never chosen.

    Args:
        logit_NA: action values `[N, A]`, or `[N, M, A]` for M agents, each of which is a row.
        epsilon: probability of a random action, in [0, 1]; one for all rows, or `[N]`.
        mask_NA: like `logit_NA`, true for the allowed actions, of which each row needs at least one; None: all whose
            value is not -inf are allowed.
        generator: source of the random numbers, on the device of `logit_NA`; None: torch's default generator.

    Returns:
        Actions `[N]`, or `[N, M]`, int64.
    """
    if mask_NA is not None:
        logit_NA = logit_NA.masked_fill(~mask_NA.bool(), -torch.inf)
    action_N = logit_NA.argmax(dim=-1)
    if isinstance(epsilon, Tensor):
        epsilon = epsilon.to(action_N.device).view(-1, *[1] * (action_N.ndim - 1))
    elif epsilon <= 0.0:
        return action_N
    options: dict[str, Any] = {"device": action_N.device, "generator": generator}
    forbidden_NA = torch.isneginf(logit_NA)
    if mask_NA is None and not forbidden_NA.any():
        random_N = torch.randint(logit_NA.shape[-1], action_N.shape, **options)
    else:  # each allowed action is equally likely to have the largest random number
        number_NA = torch.rand(logit_NA.shape, dtype=logit_NA.dtype, **options)
        random_N = number_NA.masked_fill(forbidden_NA, -1.0).argmax(dim=-1)
    explore_N = torch.rand(action_N.shape, **options) < epsilon
    return torch.where(explore_N, random_N, action_N)


def ornstein_uhlenbeck(noise_ND: Tensor, normal_ND: Tensor, sigma: float, theta: float = 0.15) -> Tensor:
    """Return the next value of noise that is correlated in time, x' = x - theta x + sigma eps.

    Started at 0, its standard deviation grows to sigma / sqrt(1 - (1 - theta)^2), which is 1.9 sigma by default, and it
    forgets within about 1 / theta steps. Source: Lillicrap et al. 2015, arXiv:1509.02971, section 7.

    `noise_ND` is x, the value before this step, and `normal_ND` eps, standard normal numbers.
    """
    return noise_ND * (1.0 - theta) + sigma * normal_ND
