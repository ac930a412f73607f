"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

Shapes: T steps; any dimensions may follow, usually one of B trajectories. M agents.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ding_lite.rl_utils.common import check_same_shape, discounted_sum


class gae_data(NamedTuple):  # noqa: N801 (DI-engine's name)
    """Input of `gae`, all `[T, ...]`. If M agents share the rest `[T, B]`, both values are `[T, B, M]`.

    Attributes:
        value: V(s_t).
        next_value: V(s_{t+1}) of the true next state, even where an episode was truncated.
        reward: r_t.
        done: true if s_{t+1} is terminal, so that its value does not count. None: false everywhere.
        traj_flag: true if t is the last step of its trajectory, terminated or truncated. None: the same as `done`.
    """

    value: Tensor
    next_value: Tensor
    reward: Tensor
    done: Tensor | None = None
    traj_flag: Tensor | None = None


@torch.no_grad()
def gae(data: gae_data, gamma: float = 0.99, lambda_: float = 0.97) -> Tensor:
    """Return the advantages of equation 16, in the shape of `value`, without gradient.

    delta_t = r_t + gamma (1 - done_t) V(s_{t+1}) - V(s_t)
    A_t = delta_t + gamma lambda (1 - traj_flag_t) A_{t+1}

    Args:
        data: see `gae_data`.
        gamma: discount per env step.
        lambda_: 0 gives the one-step TD error, 1 the discounted return minus V.

    Raises:
        ValueError: the fields' shapes differ.
    """
    value, next_value, reward, done, traj_flag = data
    if value.ndim == 3 and reward.ndim == 2:  # the agents share rewards and ends
        reward = reward.unsqueeze(-1).expand_as(value)
        done, traj_flag = (x if x is None else x.unsqueeze(-1).expand_as(value) for x in (done, traj_flag))
    check_same_shape(value=value, next_value=next_value, reward=reward, done=done, traj_flag=traj_flag)
    if done is not None:
        next_value = next_value.masked_fill(done.bool(), 0.0)
    delta = reward + gamma * next_value - value
    factor = torch.full_like(delta, gamma * lambda_)
    cut = done if traj_flag is None else traj_flag
    if cut is not None:
        factor.masked_fill_(cut.bool(), 0.0)
    return discounted_sum(delta, factor)
