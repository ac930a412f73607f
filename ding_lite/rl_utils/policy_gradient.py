"""Parts of policy gradients: advantages, and the clipped objective and value error of PPO.

Shapes: T steps, B samples or trajectories, M agents; more leading dimensions are allowed.
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

    A `lambda_` of 0 gives the one-step TD error, 1 the discounted return minus V.
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


def clipped_objective(ratio_B: Tensor, adv_B: Tensor, clip_ratio: float, dual_clip: float | None = None) -> Tensor:
    """Return the clipped surrogate objective of each sample, see `ppo_policy_error`; its gradient is the ratio's.

    Raises:
        ValueError: dual_clip is not above 1.
    """
    if dual_clip is not None and dual_clip <= 1.0:
        raise ValueError(f"dual_clip must be above 1, got {dual_clip}")
    objective_B = ratio_B * adv_B
    with torch.no_grad():  # a clipped objective has no gradient
        clipped_B = ratio_B.clamp(1.0 - clip_ratio, 1.0 + clip_ratio) * adv_B
    objective_B = torch.where(clipped_B < objective_B, clipped_B, objective_B)
    if dual_clip is not None:
        floor_B = dual_clip * adv_B
        objective_B = torch.where((adv_B < 0.0) & (objective_B < floor_B), floor_B, objective_B)
    return objective_B


def squared_value_error(value_B: Tensor, old_B: Tensor, return_B: Tensor, clip_ratio: float | None) -> Tensor:
    """Return the squared error of each value, see `ppo_value_error`; the gradient flows through the new value.

    Args:
        value_B: the learning critic's values.
        old_B: the values when the batch was prepared.
        return_B: targets.
        clip_ratio: largest change that counts, in the units of the values; None: any.
    """
    square_B = (return_B - value_B).square()
    if clip_ratio is None:
        return square_B
    with torch.no_grad():  # a clipped error has no gradient
        clipped_B = (return_B - value_B.clamp(old_B - clip_ratio, old_B + clip_ratio)).square()
    return torch.where(clipped_B > square_B, clipped_B, square_B)


def first_episodes(final_index_K: Tensor, n_step: int, num_envs: int) -> Tensor:
    """Return a mask of the steps of each environment's first m episodes.

    m is the smallest number of ended episodes of any environment, so environments with short episodes do not count more
    than those with long ones. All environments must start a new episode in the first row of the block.

    Args:
        final_index_K: places `t * N + n` of the last steps of episodes, int64.
        n_step: T.
        num_envs: N.

    Returns:
        `[T, N]`, bool.
    """
    end_TN = torch.zeros(n_step * num_envs, dtype=torch.int64, device=final_index_K.device)
    end_TN = end_TN.index_fill(0, final_index_K, 1).view(n_step, num_envs)
    ended_before_TN = end_TN.cumsum(0) - end_TN
    return ended_before_TN < end_TN.sum(0).min()
